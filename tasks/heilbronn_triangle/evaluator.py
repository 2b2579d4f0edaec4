"""Trusted scorer of points in an equilateral triangle: exact, with no tolerance at all.

Every float is a rational number, so areas are exact, and containment needs only the squares of the walls' slopes.
Points may lie on the walls. Never shown to a candidate.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

POINTS = 11
DRAW = 0

Point = tuple[Fraction, Fraction]


def instances(seed: int) -> list[dict[str, int]]:
    """One instance, the same for every seed: n points, and a number from which a program may draw, which says nothing
    of the seed."""
    return [{"n": POINTS, "seed": DRAW}]


def score(instances: Sequence[dict[str, int]], outputs: Sequence[object]) -> dict[str, float]:
    """{"score": mean over instances of the least area of a triangle of three points, as a share of the whole}. Raises
    ValueError for points that are not allowed."""
    if len(outputs) != len(instances):
        raise ValueError(f"{len(instances)} sets of points were asked for and {len(outputs)} came")
    areas = [_least_area(instance["n"], output) for instance, output in zip(instances, outputs, strict=True)]
    return {"score": math.fsum(areas) / len(areas)}


def _least_area(n: int, output: object) -> float:
    """Of the triangle with the corners (0, 0), (1, 0) and (1/2, √3/2), whose area is √3/4."""
    if type(output) is not list or len(output) != n:
        raise ValueError(f"the output must be a list of {n} points")
    points = [_point(i, item) for i, item in enumerate(output)]
    least = min(abs(_doubled(*corners)) for corners in combinations(points, 3))
    if least == 0:
        raise ValueError("three points lie on one line")
    return 2.0 * float(least) / math.sqrt(3.0)


def _doubled(a: Point, b: Point, c: Point) -> Fraction:
    """Twice the signed area of a triangle."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _point(i: int, item: object) -> Point:
    """A point in the triangle: y at least 0, and y at most √3 x and √3 (1 - x). For numbers that are not negative these
    are comparisons of squares."""
    if type(item) is not list or len(item) != 2:
        raise ValueError(f"point {i} must be [x, y]")
    for value in item:
        if type(value) not in (int, float) or not -1.0 <= value <= 2.0:
            raise ValueError(f"point {i} holds something that is not a number, or is far outside the triangle")
    x, y = Fraction(item[0]), Fraction(item[1])
    if y < 0 or not 0 <= x <= 1 or y * y > 3 * min(x, 1 - x) ** 2:
        raise ValueError(f"point {i} is outside the triangle")
    return x, y
