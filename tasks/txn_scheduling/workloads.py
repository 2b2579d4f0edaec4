"""Seeded workloads: batches of transactions that read and write keys, in the manner of five known benchmarks.

A transaction is a list of operations, ("r", key) or ("w", key) in the order in which they run. What the mixes share is
that a few keys are wanted by many; they differ in length, in the share of writes, and in where in a transaction its hot
keys stand. Written from what those benchmarks are about; none of their code or data is used.
"""

from collections.abc import Callable

import numpy as np

Operation = tuple[str, int]
Transaction = list[Operation]


def workload(name: str, seed: int, transactions: int) -> list[Transaction]:
    """`transactions` transactions of the mix `name`, keys numbered from 0 in the order in which they occur."""
    rng = np.random.default_rng([seed, MIXES.index(name)])
    drawn = [_MAKE[name](rng) for _ in range(transactions)]
    numbers: dict[tuple[str, int], int] = {}
    return [[(kind, numbers.setdefault(key, len(numbers))) for kind, key in one] for one in drawn]


Named = list[tuple[str, tuple[str, int]]]


def _hot(rng: np.random.Generator, size: int, skew: float) -> int:
    """One of `size`, the first the likeliest: Zipf's law with exponent `skew`."""
    weight = 1.0 / np.arange(1, size + 1) ** skew
    return int(rng.choice(size, p=weight / weight.sum()))


def _bank(rng: np.random.Generator) -> Named:
    """Short payments between accounts, each a savings and a checking balance."""
    one, other = _hot(rng, 40, 0.9), _hot(rng, 40, 0.9)
    kind = rng.integers(5)
    if kind == 0:  # what both balances add up to
        return [("r", ("savings", one)), ("r", ("checking", one))]
    if kind == 1:  # deposit
        return [("r", ("owner", one)), ("w", ("checking", one))]
    if kind == 2:  # empty one customer's accounts into another's
        return [("r", ("owner", one)), ("r", ("owner", other))] + [
            ("w", key) for key in dict.fromkeys([("savings", one), ("checking", one), ("checking", other)])
        ]
    if kind == 3:  # a cheque, if it is covered
        return [("r", ("owner", one)), ("r", ("savings", one)), ("w", ("checking", one))]
    return [("r", ("owner", one)), *(("w", ("checking", k)) for k in dict.fromkeys([one, other]))]


def _wholesale(rng: np.random.Generator) -> Named:
    """Orders of many items from few districts, payments to few warehouses: hot keys early, long tails."""
    house = int(rng.integers(2))
    district = 10 * house + _hot(rng, 10, 0.8)
    kind = rng.random()
    if kind < 0.5:
        items = sorted({_hot(rng, 200, 0.6) for _ in range(rng.integers(4, 12))})
        lines: Named = [
            step for item in items for step in (("r", ("item", item)), ("w", ("stock", 200 * house + item)))
        ]
        return [
            ("r", ("house", house)),
            ("w", ("district", district)),
            *lines,
            ("w", ("order", int(rng.integers(10**6)))),
        ]
    if kind < 0.85:
        customer = 30 * district + _hot(rng, 30, 0.8)
        return [("w", ("house", house)), ("w", ("district", district)), ("w", ("customer", customer))]
    return [("r", ("district", district)), *(("r", ("stock", 200 * house + _hot(rng, 200, 0.6))) for _ in range(6))]


def _store(rng: np.random.Generator) -> Named:
    """Ten operations on a key-value store, half of them writes."""
    keys = list(dict.fromkeys(_hot(rng, 120, 0.9) for _ in range(10)))
    return [("w" if rng.random() < 0.5 else "r", ("row", key)) for key in keys]


def _reviews(rng: np.random.Generator) -> Named:
    """Users read and write reviews and trust each other: mostly reads, hot keys in the middle."""
    user, item = _hot(rng, 60, 0.7), _hot(rng, 25, 1.1)
    kind = rng.random()
    reads: Named = [("r", ("user", _hot(rng, 60, 0.7))) for _ in range(rng.integers(1, 6))]
    if kind < 0.4:
        return [*reads, ("r", ("item", item)), ("r", ("trust", user))]
    if kind < 0.7:
        return [("r", ("user", user)), ("w", ("item", item)), *reads]
    if kind < 0.85:
        return [*reads, ("w", ("trust", user)), ("r", ("user", user))]
    return [("r", ("item", item)), *reads, ("w", ("item", item))]


def _market(rng: np.random.Generator) -> Named:
    """Carts of a market: from one operation to twenty, sales counted on few articles, last of all."""
    size = min(20, 1 + int(rng.geometric(0.16)))
    seen = list(dict.fromkeys(_hot(rng, 300, 0.8) for _ in range(size)))
    bought = [key for key in seen if rng.random() < 0.3]
    counted = [("w", ("sales", key % 7)) for key in bought[:2]]
    return [*(("r", ("article", key)) for key in seen), *(("w", ("article", key)) for key in bought), *counted]


_MAKE: dict[str, Callable[[np.random.Generator], Named]] = {
    "bank": _bank,
    "wholesale": _wholesale,
    "store": _store,
    "reviews": _reviews,
    "market": _market,
}
MIXES = tuple(_MAKE)
