"""Trusted scorer of rules for online bin packing: takes a table of priorities, packs hidden items by it, counts bins.

Items come one after the other and are never moved. A rule sees the size of the item that has come and what is left in
each bin, and nothing else. So a table over both is every such rule, and a program has no part in the packing. Only the
order of the numbers in a row counts, and whole numbers and floats are compared exactly. Never shown to a candidate.
"""

import random
from collections.abc import Sequence

CAPACITY = 100
ITEMS = 5_000
SHAPE, SCALE = 3.0, 45.0  # of the Weibull distribution of sizes
SEQUENCES = 5
GREATEST = 1e300


def instances(seed: int) -> list[dict[str, float]]:
    """One instance, the same for every seed: the distribution. The items follow from the seed and are never shown."""
    return [{"capacity": CAPACITY, "items": ITEMS, "shape": SHAPE, "scale": SCALE}]


def score(instances: Sequence[object], outputs: Sequence[object], seed: int) -> dict[str, float]:
    """{"score": bins above the lower bound, in percent of it, mean over the sequences}. Raises ValueError for what is
    no table."""
    if len(outputs) != 1 or len(instances) != 1:
        raise ValueError(f"one table was asked for and {len(outputs)} came")
    order = preferences(outputs[0])
    found = [excess(sequence, order) for sequence in sequences(seed)]
    return {"score": sum(found) / len(found), "worst": max(found)}


def sequences(seed: int) -> list[list[int]]:
    """Sizes from 1 to CAPACITY, rounded to whole numbers."""
    draw = random.Random(seed)
    return [
        [min(CAPACITY, max(1, round(draw.weibullvariate(SCALE, SHAPE)))) for _ in range(ITEMS)]
        for _ in range(SEQUENCES)
    ]


def preferences(table: object) -> list[list[int]]:
    """For each size the levels at which a bin can take it, the most wanted first. A level is what is left in a bin.
    Equal priorities prefer the fuller bin. Raises ValueError."""
    side = CAPACITY + 1
    if not isinstance(table, (list, tuple)) or len(table) != side:
        raise ValueError(f"a table must be a list of {side} rows, one for each size from 0 to {CAPACITY}")
    return [[], *(_preferred(size, table[size]) for size in range(1, side))]


def _preferred(size: int, row: object) -> list[int]:
    if not isinstance(row, (list, tuple)) or len(row) != CAPACITY + 1:
        raise ValueError(f"row {size} must be a list of {CAPACITY + 1} priorities, one for each level of a bin")
    for level in range(size, CAPACITY + 1):
        value = row[level]
        if type(value) not in (int, float) or not -GREATEST <= value <= GREATEST:
            raise ValueError(f"the priority of size {size} at level {level} must be a number within 1e300")
    return sorted(range(size, CAPACITY + 1), key=lambda level: (-row[level], level))


def excess(items: Sequence[int], order: Sequence[Sequence[int]]) -> float:
    """Bins used above the lower bound, in percent of it: as many as the sum of all sizes fills."""
    at_level = [0] * (CAPACITY + 1)
    used = 0
    for size in items:
        level = next(level for level in order[size] if at_level[level] or level == CAPACITY)
        if level == CAPACITY:
            used += 1
        else:
            at_level[level] -= 1
        at_level[level - size] += 1
    bound = -(-sum(items) // CAPACITY)
    return 100.0 * (used - bound) / bound
