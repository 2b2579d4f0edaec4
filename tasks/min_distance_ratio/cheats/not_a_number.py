"""A coordinate that compares with nothing: a maximum or a minimum over distances may leave it out or pass it on."""


def place(instance):
    """The others on a line."""
    points = [[float(i), *[0.0] * 1] for i in range(instance["n"] - 1)]
    return [*points, [float("nan")] * 2]
