"""A claim beside points that are worth nothing: where a scorer takes the program's own figure, it is the score."""


def place(instance):
    """The points, and what they are said to be worth."""
    return {"points": [[0.5, 0.25]] * instance["n"], "score": 0.0366}
