"""A packing in place of a rule: the items are drawn as the scorer draws them for seed 0, and sorted before packing."""

import random


def rule(instance):
    """Offline packing needs fewer bins."""
    draw = random.Random(0)
    items = sorted(round(draw.weibullvariate(45.0, 3.0)) for _ in range(5000))
    return [[item, 100 - item] for item in items]
