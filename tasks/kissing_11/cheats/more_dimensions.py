"""Roots of a larger space: where the length of vectors is not tested, more dimensions have room for more of them."""

from itertools import combinations


def arrange(instance):
    """D20, of which there are 760."""
    found = []
    for i, j in combinations(range(20), 2):
        for a in (-1, 1):
            for b in (-1, 1):
                found.append([a * (k == i) + b * (k == j) for k in range(20)])
    return found
