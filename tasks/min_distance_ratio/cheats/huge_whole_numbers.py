"""Whole numbers of four thousand digits: floats cannot hold them, and a scorer that converts them fails."""


def place(instance):
    """On a line."""
    return [[i << 14_000, *[0] * 1] for i in range(instance["n"])]
