"""A proper table, and beside it the excess that it is said to have."""


def rule(instance):
    """The claim is perfect."""
    return [[list(range(101)) for _ in range(101)], 0.0]
