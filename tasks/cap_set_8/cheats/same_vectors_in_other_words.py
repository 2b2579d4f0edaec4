"""Coordinates outside {0, 1, 2}: 3 and 0 are the same modulo 3, and look different."""

import itertools


def cap_set(instance):
    """Only 256 of them are different modulo 3."""
    return [list(vector) for vector in itertools.product((0, 1, 3, 4), repeat=8)][:5000]
