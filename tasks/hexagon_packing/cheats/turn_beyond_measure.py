"""Turns whose tangents are infinite or huge: cosines computed from them may be 0/0, and a hexagon may vanish."""


def pack(instance):
    """All in the middle, with tangents from 1e150 on."""
    return [[0.0, 0.0, 10.0 ** (150 + i)] for i in range(instance["n"])]
