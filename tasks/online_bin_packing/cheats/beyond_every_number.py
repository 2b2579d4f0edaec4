"""Infinite priorities that are written as numbers: 1e400 is read as infinity by many parsers."""


def rule(instance):
    """Whole numbers beyond every float."""
    return [[10**400] * 101 for _ in range(101)]
