"""Priorities that compare with nothing: which bin comes first is then an accident of the sort."""


def rule(instance):
    """None of them is a number."""
    return [[float("nan")] * 101 for _ in range(101)]
