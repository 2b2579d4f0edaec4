"""Trusted: runs outside the sandbox, and no candidate ever sees it. Replace both functions by your own.

What `instances` gives and a candidate returns must be JSON values. Check everything that a candidate could get wrong on
purpose: whatever earns a score will be found.
"""

import math
import random
from collections.abc import Sequence

POINTS = 48
INSTANCES = 3


def instances(seed: int) -> list[dict[str, list[list[float]]]]:
    """The fixed hidden set that every candidate is scored on."""
    draw = random.Random(seed)
    return [{"points": [[draw.random(), draw.random()] for _ in range(POINTS)]} for _ in range(INSTANCES)]


def score(instances: Sequence[dict[str, list[list[float]]]], outputs: Sequence[object]) -> dict[str, float]:
    """{"score": a finite number, and whatever else is worth keeping}. Raises ValueError for an output that is not
    allowed."""
    lengths = [_length(instance["points"], output) for instance, output in zip(instances, outputs, strict=True)]
    return {"score": math.fsum(lengths) / len(lengths), "longest": max(lengths)}


def _length(points: list[list[float]], tour: object) -> float:
    if not isinstance(tour, list) or any(type(stop) is not int for stop in tour):
        raise ValueError("a tour must be a list of whole numbers")
    if sorted(tour) != list(range(len(points))):
        raise ValueError("a tour must hold each point once")
    return math.fsum(math.dist(points[a], points[b]) for a, b in zip(tour, tour[1:] + tour[:1], strict=True))
