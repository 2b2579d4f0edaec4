"""A rule for online bin packing, as a table of priorities: which bin takes the item that has come.

The settings in the evolve block steer the toolbox below. A gap is what is left in a bin once the item is in it.
Equal settings give equal tables.
"""

import numpy as np

# EVOLVE-BLOCK-START
snug = 0
awkward = 0
fresh = "early"
beyond = "closest"
lean = 0.0
small = 0
foresight = 0
patience = 4

ZONE = 1e6  # between the priorities of two zones


def rule(instance):
    """table[size][level], for sizes and levels from 0 to the capacity: the priority of putting an item of this size
    into a bin with this much left. The highest wins, and of equal ones the fuller bin. An empty bin is always there."""
    capacity = int(instance["capacity"])
    size, level = np.arange(capacity + 1)[:, None], np.arange(capacity + 1)[None, :]
    gap = level - size
    chance = chances(capacity, instance["shape"], instance["scale"])
    priority = BEYOND[beyond](gap, level, chance)
    if foresight:
        waste = expected_waste(chance, patience)
        priority = priority + foresight * (waste[level] - waste[np.maximum(gap, 0)])
    bad = (gap > snug) & (gap <= awkward - lean * size) & (size > small)
    zone = np.where(gap <= snug, 4.0, np.where(bad, 0.0, 2.0))
    zone = np.where((level == capacity) & (gap > snug), FRESH[fresh], zone)
    table = np.where(gap >= 0, priority + ZONE * zone, 0.0)
    return table.tolist()


FRESH = {"last": -1.0, "early": 1.0, "first": 3.0}  # the zone of an empty bin: those of the others are 0, 2 and 4

BEYOND = {
    "closest": lambda gap, level, chance: -1.0 * gap,
    "widest": lambda gap, level, chance: 1.0 * gap,
    "middle": lambda gap, level, chance: -abs(gap - 45.0),
    "exact": lambda gap, level, chance: 1000.0 * chance[np.maximum(gap, 0)],
}


def chances(capacity, shape, scale):
    """(capacity + 1,) chance of each whole size."""
    edges = np.arange(capacity + 2) - 0.5
    below = 1.0 - np.exp(-((np.maximum(edges, 0.0) / scale) ** shape))
    chance = np.diff(below)
    chance[-1] += 1.0 - below[-1]
    chance[1] += chance[0]
    chance[0] = 0.0
    return chance


def expected_waste(chance, offers):
    """(capacity + 1,) what stays empty of a bin with so much left, if it is offered this many items and each is put in
    or not as is best for this bin alone."""
    count = len(chance)
    level, size = np.arange(count)[:, None], np.arange(count)[None, :]
    fits = size <= level
    waste = np.arange(count, dtype=float)
    for _ in range(offers):
        taken = np.where(fits, waste[np.maximum(level - size, 0)], np.inf)
        waste = np.minimum(taken, waste[:, None]) @ chance
    return waste


# EVOLVE-BLOCK-END
