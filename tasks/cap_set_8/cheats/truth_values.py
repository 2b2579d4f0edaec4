"""Truth values, which are whole numbers to most comparisons."""

import itertools


def cap_set(instance):
    """256 vectors of truth values."""
    return [list(vector) for vector in itertools.product((False, True), repeat=8)]
