"""A function of half a million steps, which takes a scorer for ever."""


def heights(instance):
    """It would be a proper function."""
    return [1, 2, 3, 2, 1] * 100_000
