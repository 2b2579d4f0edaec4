"""A proper set of 256 vectors and one more: among thousands of triples one adds up to zero."""

import itertools


def cap_set(instance):
    """0, 1 and 2 in every place are a line."""
    return [[2] * 8, *(list(vector) for vector in itertools.product((0, 1), repeat=8))]
