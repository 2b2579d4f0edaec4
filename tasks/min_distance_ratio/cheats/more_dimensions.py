"""Corners of a simplex in as many dimensions as there are points: all distances are equal there."""


def place(instance):
    """Each on an axis of its own."""
    n = instance["n"]
    return [[float(i == k) for k in range(n)] for i in range(n)]
