"""Points a millionth outside: within the tolerance of many checkers, and larger by as much as records differ."""

import math

GROWN = 1e-6


def place(instance):
    """Around the border, each moved outwards."""
    n, points = instance["n"], []
    corners = [(0.0, 0.0), (1.0, 0.0), (0.5, math.sqrt(3) / 2), (0.0, 0.0)]
    for i in range(n):
        along = 3 * (i + 0.5) / n
        (a, b), (c, d), part = corners[int(along)], corners[int(along) + 1], along % 1
        x, y = a + (c - a) * part, b + (d - b) * part
        points.append([0.5 + (x - 0.5) * (1 + GROWN), math.sqrt(3) / 6 + (y - math.sqrt(3) / 6) * (1 + GROWN)])
    return points
