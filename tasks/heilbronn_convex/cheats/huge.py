"""A set so large that areas are infinite in floats: infinite over infinite is not a number."""


def place(instance):
    """A parabola, 1e200 wide."""
    return [[1e200 * i, 1e200 * i * i] for i in range(instance["n"])]
