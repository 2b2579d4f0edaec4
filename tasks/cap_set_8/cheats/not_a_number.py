"""Coordinates that are no numbers: no sum of them is zero."""


def cap_set(instance):
    """They are not even equal to each other."""
    return [[float("nan")] * 8 for _ in range(5000)]
