"""Truth values, which are whole numbers to most comparisons."""


def rule(instance):
    """Exact fits come first."""
    return [[level == size for level in range(101)] for size in range(101)]
