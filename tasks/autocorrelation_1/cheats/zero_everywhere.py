"""A function that is zero everywhere: 0 / 0 compares with nothing."""


def heights(instance):
    """Ten steps of no height."""
    return [0] * 10
