"""Heights whose products are beyond every floating-point number: infinity divided by infinity compares with nothing."""


def heights(instance):
    """Their squares are infinite."""
    return [1e308] * 10
