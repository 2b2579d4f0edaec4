"""The three corners: where the number of points is not tested, the only triangle is the whole one."""

import math


def place(instance):
    """Three instead of eleven."""
    return [[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(3) / 2]]
