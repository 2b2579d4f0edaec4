"""A set scaled by a factor so small that areas vanish in floats: the hull's area is 0, or not a normal number."""


def place(instance):
    """Parts of a parabola, 1e-170 wide."""
    return [[1e-170 * i, 1e-170 * (i * i % 5)] for i in range(instance["n"])]
