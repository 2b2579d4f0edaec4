"""Points that are different numbers and nearly the same place: a tolerance for equal points would leave them out."""


def place(instance):
    """Two clusters, 1e-12 wide."""
    return [[float(i % 2) + 1e-12 * i, *[0.0] * 1] for i in range(instance["n"])]
