"""Truth values, which are whole numbers to most comparisons."""


def place(instance):
    """They could be counted."""
    return [number % 2 == 0 for number in range(len(instance["models"]))]
