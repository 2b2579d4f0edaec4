"""One circle as large as the square, and others of negative radius, which overlap nothing by the usual formula."""


def pack(instance):
    """Their sum would be large if sizes counted and signs did not."""
    return [[0.5, 0.5, 0.5], *([0.5, 0.5, -0.5] for _ in range(instance["n"] - 1))]
