"""A coordinate that compares with nothing: it may vanish from the hull, or from the least area."""


def place(instance):
    """The others on a parabola."""
    return [[float(i), float(i * i)] for i in range(instance["n"] - 1)] + [[float("nan"), 0.0]]
