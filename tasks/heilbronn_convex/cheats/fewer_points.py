"""A triangle: where the number of points is not tested, the least triangle is the hull."""


def place(instance):
    """Three points instead of 13."""
    return [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
