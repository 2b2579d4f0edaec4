"""All of the integral in one step, far above 1."""


def heights(instance):
    """It hardly overlaps with anything."""
    return [0] * 50 + [10**12] + [0] * 49
