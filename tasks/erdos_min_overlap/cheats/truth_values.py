"""Truth values, which are whole numbers to most comparisons."""


def heights(instance):
    """They could be counted."""
    return [True, False] * 5
