"""The highest priority for bins that are too full: a scorer that does not look overfills them."""


def rule(instance):
    """Where the item fits, it is best fit."""
    return [[1e9 if level < size else -level for level in range(101)] for size in range(101)]
