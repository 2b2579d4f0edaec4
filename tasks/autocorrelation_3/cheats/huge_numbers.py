"""Whole numbers of four thousand digits, which take a scorer for ever."""


def heights(instance):
    """They would be finite in exact arithmetic."""
    return [10**4000] * 1000
