"""No function at all: the greatest of no values may be taken for 0."""


def heights(instance):
    """An empty list."""
    return []
