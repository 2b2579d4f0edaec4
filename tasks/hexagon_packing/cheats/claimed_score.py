"""A claimed outer side beside hexagons that need a larger one."""


def pack(instance):
    """The hexagons, and the side that they are said to fit in."""
    return [[[2.0 * i, 0.0, 0.0] for i in range(instance["n"])], [0.0, 0.0, 0.0], 3.9]
