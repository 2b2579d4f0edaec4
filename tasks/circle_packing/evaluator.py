"""Trusted scorer of circle packings: exact, with no tolerance at all.

Every float is a rational number, so containment and disjointness are decided in rational arithmetic. Circles may
touch each other and the walls; anything beyond touching is refused. Never shown to a candidate.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

CIRCLES = 26
DRAW = 0


def instances(seed: int) -> list[dict[str, int]]:
    """One instance, the same for every seed: n circles, and a number from which a program may draw, which says nothing
    of the seed."""
    return [{"n": CIRCLES, "seed": DRAW}]


def score(instances: Sequence[dict[str, int]], outputs: Sequence[object]) -> dict[str, float]:
    """{"score": mean over instances of the sum of radii}. Raises ValueError for a packing that is not allowed."""
    if len(outputs) != len(instances):
        raise ValueError(f"{len(instances)} packings were asked for and {len(outputs)} came")
    sums = [_sum_of_radii(instance["n"], output) for instance, output in zip(instances, outputs, strict=True)]
    return {"score": math.fsum(sums) / len(sums)}


def _sum_of_radii(n: int, output: object) -> float:
    if not isinstance(output, (list, tuple)) or len(output) != n:
        raise ValueError(f"a packing must be a list of {n} circles")
    circles = [_circle(i, item) for i, item in enumerate(output)]
    for i, (x, y, r) in enumerate(circles):
        if x - r < 0 or y - r < 0 or x + r > 1 or y + r > 1:
            raise ValueError(f"circle {i} leaves the square")
        for j in range(i):
            a, b, s = circles[j]
            if (x - a) ** 2 + (y - b) ** 2 < (r + s) ** 2:
                raise ValueError(f"circles {j} and {i} overlap")
    return float(sum(r for _, _, r in circles))


def _circle(i: int, item: object) -> tuple[Fraction, Fraction, Fraction]:
    if not isinstance(item, (list, tuple)) or len(item) != 3:
        raise ValueError(f"circle {i} must be [x, y, r]")
    for value in item:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(f"circle {i} holds something that is not a finite number")
    x, y, r = (Fraction(value) for value in item)
    if r < 0:
        raise ValueError(f"circle {i} has a negative radius")
    return x, y, r
