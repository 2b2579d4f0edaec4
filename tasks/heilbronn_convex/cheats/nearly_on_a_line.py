"""Points so near to a line that floats of areas are rounding errors: the quotient of two such may be large."""


def place(instance):
    """Heights of a few units in the last place."""
    return [[float(i), 1.0 + 2.220446049250313e-16 * (i * i % 7)] for i in range(instance["n"])]
