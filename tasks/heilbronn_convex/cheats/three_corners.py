"""Corners of one triangle, each several times: where equal points are left out, the least triangle is the hull."""


def place(instance):
    """Three different points."""
    corners = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    return [corners[i % 3] for i in range(instance["n"])]
