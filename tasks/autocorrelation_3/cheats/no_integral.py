"""Heights that sum to 0: a quotient by 0 is infinite or no number."""


def heights(instance):
    """The integral vanishes."""
    return [3, -3, 2, -2]
