"""Heights below the least normal floating-point number, and a negative zero."""


def heights(instance):
    """Scaling them loses all digits."""
    return [5e-324, -0.0, 5e-324]
