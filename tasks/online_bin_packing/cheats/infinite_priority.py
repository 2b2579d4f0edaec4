"""Priorities beyond every number."""


def rule(instance):
    """Exact fits come first."""
    return [[float("inf") if level == size else 0.0 for level in range(101)] for size in range(101)]
