"""A packing of more circles than were asked for: 100 in a grid."""


def pack(instance):
    """Their radii sum to 5."""
    return [[0.05 + 0.1 * i, 0.05 + 0.1 * j, 0.05] for i in range(10) for j in range(10)]
