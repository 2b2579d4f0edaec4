"""Predictors and maps: steps that change a list of unsigned numbers of 32 bits, and can be undone.

`encode` gives the changed numbers and the numbers that a decoder needs beside them; `decode` takes both. All arithmetic
is modulo 2^32, so every step can be undone whatever the numbers are.
"""

from collections.abc import Callable
from functools import partial
from math import gcd
from typing import NamedTuple

import numpy as np

Encode = Callable[[np.ndarray], tuple[np.ndarray, list[int]]]
Decode = Callable[[np.ndarray, list[int]], np.ndarray]


class Step(NamedTuple):
    """How numbers are changed, and how that is undone. `needs`: how many numbers a decoder needs beside them; None if
    that varies."""

    encode: Encode
    decode: Decode
    needs: int | None = 0


def _plain(change: Callable[[np.ndarray], np.ndarray], undo: Callable[[np.ndarray], np.ndarray]) -> Step:
    """A step whose decoder needs nothing else."""
    return Step(lambda x: (change(x), []), lambda x, _: undo(x))


def _signed(x: np.ndarray) -> np.ndarray:
    return x.view(np.int32).astype(np.int64)


def _unsigned(x: np.ndarray) -> np.ndarray:
    return (x & 0xFFFFFFFF).astype(np.uint32)


# Predictors


def _lag(x: np.ndarray, lag: int) -> np.ndarray:
    after = x.copy()
    after[lag:] -= x[:-lag]
    return after


def _sums(x: np.ndarray, lag: int) -> np.ndarray:
    """Undoes _lag."""
    padded = np.concatenate([x, np.zeros(-len(x) % lag, np.uint32)]).reshape(-1, lag)
    return np.cumsum(padded, axis=0, dtype=np.uint32).ravel()[: len(x)]


def _lags(*lags: int) -> Step:
    def change(x: np.ndarray) -> np.ndarray:
        for lag in lags:
            x = _lag(x, lag)
        return x

    def undo(x: np.ndarray) -> np.ndarray:
        for lag in reversed(lags):
            x = _sums(x, lag)
        return x

    return _plain(change, undo)


def _xor(lag: int) -> Step:
    def change(x: np.ndarray) -> np.ndarray:
        after = x.copy()
        after[lag:] ^= x[:-lag]
        return after

    def undo(x: np.ndarray) -> np.ndarray:
        padded = np.concatenate([x, np.zeros(-len(x) % lag, np.uint32)]).reshape(-1, lag)
        return np.bitwise_xor.accumulate(padded, axis=0).ravel()[: len(x)]

    return _plain(change, undo)


def _less(choose: Callable[[np.ndarray], int]) -> Step:
    """Subtracts one number of the column."""

    def change(x: np.ndarray) -> tuple[np.ndarray, list[int]]:
        base = choose(x) if len(x) else 0
        return x - np.uint32(base), [base]

    return Step(change, lambda x, beside: x + np.uint32(beside[0]), 1)


def _commonest(x: np.ndarray) -> int:
    values, counts = np.unique(x, return_counts=True)
    return int(values[np.argmax(counts)])


def _straight(first: int, slope: int, count: int) -> np.ndarray:
    """A line with a slope in 65,536ths, rounded down."""
    return _unsigned(first + (np.arange(count, dtype=np.int64) * slope >> 16))


def _line(x: np.ndarray) -> tuple[np.ndarray, list[int]]:
    if len(x) < 2:
        return x, [0, 0]
    values = _signed(x)
    slope = int(values[-1] - values[0]) * 65536 // (len(x) - 1)
    return x - _straight(int(values[0]), slope, len(x)), [int(x[0]), slope & 0xFFFFFFFFFFFFFF]


def _off_line(x: np.ndarray, beside: list[int]) -> np.ndarray:
    first, slope = beside
    slope -= (slope >> 55) << 56
    return x + _straight(first, slope, len(x))


_NONE = _plain(lambda x: x, lambda x: x)
PREDICTORS = {
    "none": _NONE,
    **{f"lag{lag}": _lags(lag) for lag in (1, 2, 3, 4, 6, 8, 12, 16, 24)},
    "second": _lags(1, 1),
    "third": _lags(1, 1, 1),
    **{f"lag{lag}x1": _lags(lag, 1) for lag in (2, 3, 4, 6, 8)},
    **{f"xor{lag}": _xor(lag) for lag in (1, 2, 4)},
    "least": _less(lambda x: int(x.min())),
    "median": _less(lambda x: int(np.sort(x)[len(x) // 2])),
    "mode": _less(_commonest),
    "line": Step(_line, _off_line, 2),
}


# Maps


def _zigzag(x: np.ndarray) -> np.ndarray:
    return (x << np.uint32(1)) ^ (np.uint32(0) - (x >> np.uint32(31)))


def _unzigzag(x: np.ndarray) -> np.ndarray:
    return (x >> np.uint32(1)) ^ (np.uint32(0) - (x & np.uint32(1)))


def _gray(x: np.ndarray) -> np.ndarray:
    return x ^ (x >> np.uint32(1))


def _ungray(x: np.ndarray) -> np.ndarray:
    for shift in (1, 2, 4, 8, 16):
        x = x ^ (x >> np.uint32(shift))
    return x


def _rotate(x: np.ndarray, bits: int) -> np.ndarray:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))


def _signs(x: np.ndarray) -> np.ndarray:
    """Sign and magnitude. The least number stays what it is. Undoes itself."""
    top = np.uint32(1 << 31)
    return np.where((x & top) != 0, np.where(x == top, x, (np.uint32(0) - x) | top), x)


def _divide(x: np.ndarray) -> tuple[np.ndarray, list[int]]:
    values = _signed(x)
    by = max(1, gcd(*values.tolist()))
    return _unsigned(values // by), [by]


def _multiply(x: np.ndarray, beside: list[int]) -> np.ndarray:
    return _unsigned(_signed(x) * beside[0])


def _ranks(x: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Each value as its place in the sorted list of values."""
    values, places = np.unique(x, return_inverse=True)
    return places.astype(np.uint32), np.diff(values.astype(np.int64), prepend=0).tolist()


def _ranked(x: np.ndarray, beside: list[int]) -> np.ndarray:
    return _unsigned(np.cumsum(beside))[x] if len(x) else x


def _frequent(x: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Each value as its place in the list of values, the commonest first."""
    values, places, counts = np.unique(x, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    rank = np.empty(len(values), np.uint32)
    rank[order] = np.arange(len(values), dtype=np.uint32)
    return rank[places], values[order].tolist()


def _recent(x: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Each value as its place in a list in which the value met last stands first."""
    front = np.unique(x)[::-1].tolist()
    beside, places = list(front), list[int]()
    for value in x.tolist():
        place = front.index(value)
        places.append(place)
        front.insert(0, front.pop(place))
    return np.array(places, np.uint32), beside


def _met(x: np.ndarray, beside: list[int]) -> np.ndarray:
    front, values = list(beside), list[int]()
    for place in x.tolist():
        front.insert(0, front.pop(place))
        values.append(front[0])
    return np.array(values, np.uint32)


def _shorten(x: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """The value of each run of equal values, then how often each is repeated."""
    starts = np.flatnonzero(np.concatenate([[True], x[1:] != x[:-1]])) if len(x) else np.zeros(0, np.int64)
    lengths = np.diff(starts, append=len(x)) - 1
    return np.concatenate([x[starts], lengths.astype(np.uint32)]), []


def _repeat(x: np.ndarray, _: list[int]) -> np.ndarray:
    half = len(x) // 2
    return np.repeat(x[:half], x[half:].astype(np.int64) + 1)


MAPS = {
    "none": _NONE,
    "zigzag": _plain(_zigzag, _unzigzag),
    "gray": _plain(_gray, _ungray),
    "ungray": _plain(_ungray, _gray),
    "negate": _plain(lambda x: np.uint32(0) - x, lambda x: np.uint32(0) - x),
    "complement": _plain(lambda x: ~x, lambda x: ~x),
    "rotate8": _plain(partial(_rotate, bits=8), partial(_rotate, bits=24)),
    "rotate16": _plain(partial(_rotate, bits=16), partial(_rotate, bits=16)),
    "signs": _plain(_signs, _signs),
    "divide": Step(_divide, _multiply, 1),
    "ranks": Step(_ranks, _ranked, None),
    "frequent": Step(_frequent, lambda x, beside: np.array(beside, np.uint32)[x] if len(x) else x, None),
    "recent": Step(_recent, _met, None),
    "repeats": Step(_shorten, _repeat, 0),
}
