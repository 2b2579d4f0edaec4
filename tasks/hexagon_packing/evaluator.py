"""Trusted scorer of hexagon packings: exact, with no tolerance at all.

Every float is a rational number, and a turn is given by the tangent of half its angle, so that its cosine and sine are
rational too. Then every length that matters is a + b √3 with rational a and b, and such numbers are compared by their
squares. Hexagons may touch. Never shown to a candidate.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

HEXAGONS = 11
DRAW = 0
FARTHEST = 100.0  # of a centre, either way
ROOT = Fraction(math.isqrt(3 * 10**80), 10**40)  # √3 to 40 digits, for the score alone


class Surd(NamedTuple):
    """The number whole + root √3."""

    whole: Fraction
    root: Fraction

    def at_least(self, other: "Surd") -> bool:
        """Whether it is at least as large as another."""
        a, b = self.whole - other.whole, self.root - other.root
        if a >= 0 and b >= 0:
            return True
        if a < 0 and b < 0:
            return False
        return a * a >= 3 * b * b if a >= 0 else 3 * b * b >= a * a

    def plus(self, other: "Surd") -> "Surd":
        """The sum of both."""
        return Surd(self.whole + other.whole, self.root + other.root)


class Hexagon(NamedTuple):
    """A regular hexagon of side 1: centre, and cosine and sine of its turn. Unturned, it has a corner at its right."""

    x: Fraction
    y: Fraction
    cosine: Fraction
    sine: Fraction


APOTHEM = Surd(Fraction(0), Fraction(1, 2))


def instances(seed: int) -> list[dict[str, int]]:
    """One instance, the same for every seed: n hexagons, and a number from which a program may draw, which says nothing
    of the seed."""
    return [{"n": HEXAGONS, "seed": DRAW}]


def score(instances: Sequence[dict[str, int]], outputs: Sequence[object]) -> dict[str, float]:
    """{"score": mean over instances of the side of the least hexagon around the origin, with a corner at its right,
    that contains all hexagons}. Raises ValueError for a packing that is not allowed."""
    if len(outputs) != len(instances):
        raise ValueError(f"{len(instances)} packings were asked for and {len(outputs)} came")
    sides = [_side(instance["n"], output) for instance, output in zip(instances, outputs, strict=True)]
    return {"score": math.fsum(sides) / len(sides)}


def _side(n: int, output: object) -> float:
    if type(output) is not list or len(output) != n:
        raise ValueError(f"a packing must be a list of {n} hexagons")
    hexagons = [_hexagon(i, item) for i, item in enumerate(output)]
    for (i, first), (j, second) in combinations(enumerate(hexagons), 2):
        if not _apart(first, second):
            raise ValueError(f"hexagons {i} and {j} overlap")
    outer = APOTHEM
    for one in hexagons:
        reach = _gauge(one.x, one.y).plus(_gauge(one.cosine, one.sine))
        outer = reach if reach.at_least(outer) else outer
    return float((outer.whole + outer.root * ROOT) * 2 / ROOT)


def _gauge(x: Fraction, y: Fraction) -> Surd:
    """How far (x, y) reaches along the normals of an unturned hexagon's sides, at most. For a point of the unit circle
    it is also how far a hexagon turned to there reaches from its centre along these normals."""
    flat, steep = Surd(abs(y), Fraction(0)), Surd(abs(y) / 2, abs(x) / 2)
    return flat if flat.at_least(steep) else steep


def _apart(a: Hexagon, b: Hexagon) -> bool:
    """Whether a side of one has the other beyond it. Two convex polygons overlap if and only if no side has."""
    cosine, sine = a.cosine * b.cosine + a.sine * b.sine, a.cosine * b.sine - a.sine * b.cosine
    needed = APOTHEM.plus(_gauge(cosine, sine))
    x, y = b.x - a.x, b.y - a.y
    return any(_gauge(one.cosine * x + one.sine * y, one.cosine * y - one.sine * x).at_least(needed) for one in (a, b))


def _hexagon(i: int, item: object) -> Hexagon:
    if type(item) is not list or len(item) != 3:
        raise ValueError(f"hexagon {i} must be [x, y, t]")
    for value in item:
        if type(value) not in (int, float) or not -FARTHEST <= value <= FARTHEST:
            raise ValueError(f"hexagon {i} holds something that is not a number of at most {FARTHEST:g} either way")
    x, y, t = (Fraction(value) for value in item)
    return Hexagon(x, y, (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t))
