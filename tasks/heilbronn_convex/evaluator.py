"""Trusted scorer of points by their smallest triangle: exact, with no tolerance at all.

Every float is a rational number, so areas and the convex hull are exact, and only the last quotient is rounded. The
score does not change with the scale. Never shown to a candidate.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise

POINTS = 13
DRAW = 0
LARGEST = 1e9  # of a coordinate, either way

Point = tuple[Fraction, Fraction]


def instances(seed: int) -> list[dict[str, int]]:
    """One instance, the same for every seed: n points, and a number from which a program may draw, which says nothing
    of the seed."""
    return [{"n": POINTS, "seed": DRAW}]


def score(instances: Sequence[dict[str, int]], outputs: Sequence[object]) -> dict[str, float]:
    """{"score": mean over instances of the least area of a triangle of three points, as a share of the area of the
    convex hull}. Raises ValueError for points that are not allowed."""
    if len(outputs) != len(instances):
        raise ValueError(f"{len(instances)} sets of points were asked for and {len(outputs)} came")
    shares = [_share(instance["n"], output) for instance, output in zip(instances, outputs, strict=True)]
    return {"score": math.fsum(shares) / len(shares)}


def _share(n: int, output: object) -> float:
    if type(output) is not list or len(output) != n:
        raise ValueError(f"the output must be a list of {n} points")
    points = [_point(i, item) for i, item in enumerate(output)]
    least = min(abs(_doubled(*corners)) for corners in combinations(points, 3))
    if least == 0:
        raise ValueError("three points lie on one line")
    corners = _hull(points)
    whole = sum((_doubled(corners[0], a, b) for a, b in pairwise(corners[1:])), Fraction(0))
    return float(least / whole)


def _doubled(a: Point, b: Point, c: Point) -> Fraction:
    """Twice the signed area of a triangle."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _hull(points: Sequence[Point]) -> list[Point]:
    """Corners of the convex hull, counter-clockwise, by Andrew's chains."""
    ordered = sorted(set(points))
    return _chain(ordered) + _chain(ordered[::-1])


def _chain(ordered: Sequence[Point]) -> list[Point]:
    """One side of the hull of points in order, without the last."""
    chain: list[Point] = []
    for point in ordered:
        while len(chain) > 1 and _doubled(chain[-2], chain[-1], point) <= 0:
            chain.pop()
        chain.append(point)
    return chain[:-1]


def _point(i: int, item: object) -> Point:
    if type(item) is not list or len(item) != 2:
        raise ValueError(f"point {i} must be [x, y]")
    for value in item:
        if type(value) not in (int, float) or not -LARGEST <= value <= LARGEST:
            raise ValueError(f"point {i} holds something that is not a number of at most {LARGEST:g} either way")
    return Fraction(item[0]), Fraction(item[1])
