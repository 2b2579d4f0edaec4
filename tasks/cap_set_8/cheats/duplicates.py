"""A proper set of 256 vectors, each three times: a scorer that counts the list counts 768."""

import itertools


def cap_set(instance):
    """No three different ones add up to zero."""
    return [list(vector) for vector in itertools.product((0, 1), repeat=8)] * 3
