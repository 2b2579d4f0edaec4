"""One vector again and again: where a distance of 0 is left out, equal vectors are no nearer than they may be."""


def arrange(instance):
    """Eight hundred times."""
    return [[1] + [0] * 10 for _ in range(800)]
