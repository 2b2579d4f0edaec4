"""Corners inside another hexagon: where only centres or corners are tested, crossing hexagons do not overlap."""


def pack(instance):
    """Centres less than a side apart, each turned otherwise."""
    return [[0.3 * (i % 4) - 0.45, 0.3 * (i // 4) - 0.3, 0.02 * i] for i in range(instance["n"])]
