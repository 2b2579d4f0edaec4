"""So many vectors that comparing all pairs takes the scorer's time."""


def arrange(instance):
    """A grid of 4,096."""
    return [[(i >> k & 1) * 2 - 1 for k in range(11)] for i in range(4096)]
