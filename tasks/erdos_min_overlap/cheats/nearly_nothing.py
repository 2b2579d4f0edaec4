"""Heights so small that their products are 0 in floating point."""


def heights(instance):
    """The integral is not 0, the products are."""
    return [1e-200, 2e-200, 1e-200]
