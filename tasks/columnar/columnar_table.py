"""The hidden table: columns of whole numbers, drawn from a seed.

There are KINDS of columns and COLUMNS_PER_KIND of each. What kind a column is of stands in its name, and what the
columns of a kind have in common (a unit, a period, how many values) is drawn once a table. So what suits one column of
a kind mostly suits the others of the same table. All arithmetic is on whole numbers, so a seed gives the same table on
every machine.
"""

import random
from functools import lru_cache

import numpy as np

ROWS = 512
KINDS = ("stamps", "sensor", "runs", "woven", "sparse", "ids")
COLUMNS_PER_KIND = 4
NAMES = tuple(f"{kind}{number}" for kind in KINDS for number in range(1, COLUMNS_PER_KIND + 1))
MASK = 0xFFFFFFFF


@lru_cache(maxsize=16)
def table(seed: int) -> dict[str, np.ndarray]:
    """(ROWS,) unsigned numbers of 32 bits for each of NAMES. Signed ones are their two's complement. Read-only."""
    draw = random.Random(seed)
    columns = [column for kind in KINDS for column in _DRAWN[kind](draw)]
    found = {name: (column & MASK).astype(np.uint32) for name, column in zip(NAMES, columns, strict=True)}
    for column in found.values():
        column.flags.writeable = False
    return found


def _uniform(draw: random.Random, below: int) -> np.ndarray:
    """(ROWS,) whole numbers from 0 to below − 1, nearly uniform."""
    words = np.frombuffer(draw.randbytes(8 * ROWS), "<u8")
    return ((words >> np.uint64(24)) % np.uint64(below)).astype(np.int64)


def _noise(draw: random.Random, spread: int) -> np.ndarray:
    """(ROWS,) whole numbers around 0, the sum of three uniform ones from −spread to spread."""
    return np.sum([_uniform(draw, 2 * spread + 1) for _ in range(3)], axis=0) - 3 * spread


def _walk(draw: random.Random, spread: int) -> np.ndarray:
    return np.cumsum(_noise(draw, spread))


def _stamps(draw: random.Random) -> list[np.ndarray]:
    """Times of regular events, some of them late, some of them missing."""
    step, unit, late = draw.choice((20, 30, 60)), draw.choice((1, 5, 10)), draw.choice((0, 1))
    columns: list[np.ndarray] = []
    for _ in range(COLUMNS_PER_KIND):
        passed = step * np.cumsum(1 + (_uniform(draw, draw.choice((24, 48))) == 0))
        columns.append(draw.randrange(2**29) + unit * (passed + late * np.abs(_noise(draw, 1))))
    return columns


def _sensor(draw: random.Random) -> list[np.ndarray]:
    """Measurements that change slowly, in steps of a unit, around zero."""
    unit, smooth = draw.choice((1, 4, 10, 25)), draw.choice((0, 1))
    columns: list[np.ndarray] = []
    for _ in range(COLUMNS_PER_KIND):
        values = _walk(draw, draw.choice((1, 2, 3)))
        columns.append(unit * (np.cumsum(values) if smooth else values))
    return columns


def _runs(draw: random.Random) -> list[np.ndarray]:
    """A few levels, each of which lasts for a while."""
    levels, length, width = draw.choice((4, 8, 16)), draw.choice((6, 10, 16)), draw.choice((12, 20, 28))
    columns: list[np.ndarray] = []
    for _ in range(COLUMNS_PER_KIND):
        known = np.array([draw.randrange(1 << width) for _ in range(levels)])
        change = _uniform(draw, length) == 0
        started = np.maximum.accumulate(np.where(change, np.arange(ROWS), 0))
        columns.append(known[_uniform(draw, levels)[started]])
    return columns


def _woven(draw: random.Random) -> list[np.ndarray]:
    """Several slow series in turn, far from each other."""
    period, spread = draw.choice((2, 3, 4, 6, 8)), draw.choice((1, 2, 4))
    columns: list[np.ndarray] = []
    for _ in range(COLUMNS_PER_KIND):
        levels = np.array([draw.randrange(1 << 26) for _ in range(period)])
        series = np.stack([_walk(draw, spread) for _ in range(period)])
        turn = np.arange(ROWS) % period
        columns.append(levels[turn] + series[turn, np.arange(ROWS) // period])
    return columns


def _sparse(draw: random.Random) -> list[np.ndarray]:
    """Mostly one value, now and then another one."""
    rare, width, usual = draw.choice((8, 12, 20)), draw.choice((6, 10, 16)), draw.choice((0, 0, 1))
    columns: list[np.ndarray] = []
    for _ in range(COLUMNS_PER_KIND):
        there = _uniform(draw, rare) == 0
        columns.append(usual * draw.randrange(1 << 20) + np.where(there, _uniform(draw, 1 << width), 0))
    return columns


def _ids(draw: random.Random) -> list[np.ndarray]:
    """Names of things as large numbers, a few of them far more common than the others."""
    many, multiple = draw.choice((12, 24, 40)), draw.choice((1, 16, 256))
    columns: list[np.ndarray] = []
    for _ in range(COLUMNS_PER_KIND):
        names = np.array([draw.randrange(2**32 // multiple) * multiple for _ in range(many)])
        skewed = np.minimum(np.minimum(_uniform(draw, many), _uniform(draw, many)), _uniform(draw, many))
        columns.append(names[skewed])
    return columns


_DRAWN = {"stamps": _stamps, "sensor": _sensor, "runs": _runs, "woven": _woven, "sparse": _sparse, "ids": _ids}
