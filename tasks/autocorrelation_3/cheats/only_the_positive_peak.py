"""Small positive values and large negative ones: a scorer that takes the greatest value, not the size, is deceived."""


def heights(instance):
    """The sizes are what counts."""
    return [100, -90, 50, -49]
