"""Short and long vectors: where each pair is compared with the shorter one, several fit in one direction."""


def arrange(instance):
    """Multiples of the axes."""
    return [[(1 << m) * s * (i == k) for k in range(11)] for i in range(11) for s in (-1, 1) for m in range(20)]
