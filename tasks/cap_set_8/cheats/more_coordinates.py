"""Vectors of nine coordinates, of which more fit."""

import itertools


def cap_set(instance):
    """512 vectors of a larger space."""
    return [list(vector) for vector in itertools.product((0, 1), repeat=9)]
