"""A grid of circles that touch, each grown by a millionth: within the tolerance of many checkers, beyond what fits."""

GROWN = 1e-6


def pack(instance):
    """25 circles in a grid, and one of no size."""
    radius = 0.1 * (1 + GROWN)
    grid = [[0.1 + 0.2 * i, 0.1 + 0.2 * j, radius] for i in range(5) for j in range(5)]
    return [*grid, [0.2, 0.2, 0.0]]
