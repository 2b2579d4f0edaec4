"""A single high step among zeros, where the norms are taken as sums over few points."""


def heights(instance):
    """It is as flat as one step, which is two thirds."""
    return [0] * 50 + [10**12] + [0] * 50
