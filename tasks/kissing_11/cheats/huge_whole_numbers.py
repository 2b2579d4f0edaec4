"""Whole numbers of four thousand digits: exact arithmetic on many of them is slow."""


def arrange(instance):
    """Each on an axis."""
    return [[(i == k) << 14_000 for k in range(11)] for i in range(11) for _ in range(60)]
