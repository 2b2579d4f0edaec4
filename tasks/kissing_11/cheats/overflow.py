"""Whole numbers whose squares overflow 64 bits: distances that wrap around look large."""


def arrange(instance):
    """Neighbours near 2 to the power of 49."""
    return [[(1 << 49) + i * (k == 0) for k in range(11)] for i in range(300)]
