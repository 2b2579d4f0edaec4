"""Two different points: a hull with fewer than three corners has no area, and some programs fail or return 1."""


def place(instance):
    """Half of them at each."""
    return [[float(i % 2), 0.0] for i in range(instance["n"])]
