"""Functions of which tests make tasks, at the top of a file as a user writes them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from decimal import Decimal

BEST = 3.0
UNUSED = Decimal("1.5")


class Gauge:
    """A class that a scorer names, with a name of its own body."""

    unit = 1.0
    double = 2 * unit

    def off(self, value: float) -> float:
        return abs(value - BEST) / self.unit


def off(value: float) -> float:
    return Gauge().off(value)


def nearness(instances: Sequence[object], outputs: Sequence[float]) -> float:
    """Return a number near the one that is wanted."""
    if not all(math.isfinite(one) for one in outputs):
        raise ValueError("not finite")
    return -sum(map(off, outputs)) / len(instances)


def metrics(instances: Sequence[object], outputs: Sequence[float], settings: dict[str, float]) -> dict[str, float]:
    return {"score": settings["times"] * nearness(instances, outputs), "count": len(outputs)}


def drawn(seed: int) -> list[int]:
    return [seed, seed + 1]


def find() -> None:
    global nowhere
    nowhere = 1.0


def lost(instances: Sequence[object], outputs: Sequence[float]) -> float:
    return nowhere


def relative(instances: Sequence[object], outputs: Sequence[float]) -> float:
    from tests import support  # an import within the function is its own

    return float(support is None)


async def slow(instances: Sequence[object], outputs: Sequence[float]) -> float:
    return 0.0


@functools.cache
def cached(instances: Sequence[object], outputs: Sequence[float]) -> float:
    return 0.0


def enclosing() -> object:
    def inner(instances: Sequence[object], outputs: Sequence[float]) -> float:
        return BEST

    return inner
