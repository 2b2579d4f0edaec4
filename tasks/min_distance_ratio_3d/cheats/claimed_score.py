"""A claim beside points that are worth little: where a scorer takes the program's own figure, it is the score."""


def place(instance):
    """The points, and what they are said to be worth."""
    return [[[float(i), *[0.0] * 2] for i in range(instance["n"])], 1.0]
