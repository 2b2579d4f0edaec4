"""Trusted scorer of points by their largest over their smallest distance: exact, with no tolerance at all.

Every float is a rational number, so squared distances are exact, and only the last quotient is rounded. The score does
not change with the scale. Never shown to a candidate.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

POINTS = 14
DIMENSIONS = 3
DRAW = 0
LARGEST = 1e9  # of a coordinate, either way


def instances(seed: int) -> list[dict[str, int]]:
    """One instance, the same for every seed: n points, the dimensions of space, and a number from which a program may
    draw, which says nothing of the seed."""
    return [{"n": POINTS, "dimensions": DIMENSIONS, "seed": DRAW}]


def score(instances: Sequence[dict[str, int]], outputs: Sequence[object]) -> dict[str, float]:
    """{"score": mean over instances of the square of largest over smallest distance}. Raises ValueError for points that
    are not allowed."""
    if len(outputs) != len(instances):
        raise ValueError(f"{len(instances)} sets of points were asked for and {len(outputs)} came")
    ratios = [
        _ratio(instance["n"], instance["dimensions"], output)
        for instance, output in zip(instances, outputs, strict=True)
    ]
    return {"score": math.fsum(ratios) / len(ratios)}


def _ratio(n: int, dimensions: int, output: object) -> float:
    if type(output) is not list or len(output) != n:
        raise ValueError(f"the output must be a list of {n} points")
    points = [_point(i, dimensions, item) for i, item in enumerate(output)]
    squares = [sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) for a, b in combinations(points, 2)]
    shortest, longest = Fraction(min(squares)), Fraction(max(squares))
    if shortest == 0:
        raise ValueError("two points are the same")
    if longest > shortest * 10**12:
        raise ValueError("the largest distance is more than a million times the smallest")
    return float(longest / shortest)


def _point(i: int, dimensions: int, item: object) -> list[Fraction]:
    if type(item) is not list or len(item) != dimensions:
        raise ValueError(f"point {i} must be a list of {dimensions} coordinates")
    for value in item:
        if type(value) not in (int, float) or not -LARGEST <= value <= LARGEST:
            raise ValueError(f"point {i} holds something that is not a number of at most {LARGEST:g} either way")
    return [Fraction(value) for value in item]
