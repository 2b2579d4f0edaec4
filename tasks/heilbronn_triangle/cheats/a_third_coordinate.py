"""Points of space: where areas are computed by any cross product, those in space are larger."""


def place(instance):
    """On a curve in space, far above the triangle."""
    return [[0.5, 0.25, 10.0 * i * i] for i in range(instance["n"])]
