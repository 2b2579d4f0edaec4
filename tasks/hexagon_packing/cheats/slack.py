"""Hexagons that touch, each nearer to the next by a millionth: within the tolerance of many checkers."""

import math

NEARER = 1e-6


def pack(instance):
    """Rows of a honeycomb, pulled together."""
    gap = math.sqrt(3) * (1 - NEARER)
    places = [(0, 0), (1, 0), (0, 1), (-1, 1), (-1, 0), (0, -1), (1, -1), (2, -1), (1, 1), (-1, 2), (-2, 1)]
    return [[gap * math.sqrt(3) / 2 * q, gap * (r + q / 2), 0.0] for q, r in places]
