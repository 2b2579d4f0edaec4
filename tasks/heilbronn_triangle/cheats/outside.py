"""Points of a larger triangle: where containment is not tested, areas grow with its square."""

import math


def place(instance):
    """On a parabola, no three on a line, a hundred times as large as the triangle."""
    n = instance["n"]
    return [[100 * i / n, 100 * (i / n) ** 2 * math.sqrt(3) / 2] for i in range(n)]
