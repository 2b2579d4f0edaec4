"""A regular triangle: where the number of points is not tested, all distances are equal."""

import math


def place(instance):
    """Three points instead of 14."""
    return [[x, y, *[0.0] * 1] for x, y in ((0.0, 0.0), (1.0, 0.0), (0.5, math.sqrt(3) / 2))]
