"""Points at two places: where a distance of 0 is left out, all distances are equal and the quotient is 1."""


def place(instance):
    """Half of them at each."""
    return [[float(i % 2), *[0.0] * 1] for i in range(instance["n"])]
