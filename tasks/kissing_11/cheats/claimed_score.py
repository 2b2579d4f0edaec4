"""A claim beside one vector: where a scorer takes the program's own figure, it is the score."""


def arrange(instance):
    """The vectors, and how many there are said to be."""
    return {"vectors": [[1] + [0] * 10], "count": 800}
