"""Trusted scorer of transaction schedules: takes only an order, runs it itself, and counts what it takes.

Every operation takes one step. A transaction locks each key from the operation that first touches it to its own end,
for writing if it ever writes it, and never waits once it runs: it starts as soon as every lock that it will need is
free of the transactions before it in the schedule. Never shown to a candidate.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from workloads import MIXES, Transaction, workload

SCALE = 1e6


def instances(seed: int, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One instance for each workload: its transactions, each a list of ["r" or "w", key]."""
    return [{"transactions": batch} for batch in _batches(seed, int(settings["transactions"]))]


def score(
    instances: Sequence[object], outputs: Sequence[object], seed: int, settings: Mapping[str, Any]
) -> dict[str, float]:
    """{"score": SCALE / (1 + sum of makespans)}, and the makespans. Raises ValueError for what is no schedule."""
    batches = _batches(seed, int(settings["transactions"]))
    if not len(outputs) == len(instances) == len(batches):
        raise ValueError(f"{len(batches)} schedules were asked for and {len(outputs)} came")
    spans = [makespan(batch, _schedule(output, len(batch))) for batch, output in zip(batches, outputs, strict=True)]
    total = sum(spans)
    return {"score": SCALE / (1 + total), "makespan": total, **dict(zip(MIXES, map(float, spans), strict=True))}


def makespan(batch: Sequence[Transaction], schedule: Sequence[int]) -> int:
    """Steps until the last transaction has ended."""
    read_free: dict[int, int] = {}  # when the last writer of a key ends
    write_free: dict[int, int] = {}  # when the last reader or writer of a key ends
    last = 0
    for number in schedule:
        locks = locks_of(batch[number])
        begin = max([0, *((write_free if writes else read_free).get(key, 0) - at for key, at, writes in locks)])
        end = begin + len(batch[number])
        for key, _, writes in locks:
            write_free[key] = max(write_free.get(key, 0), end)
            if writes:
                read_free[key] = max(read_free.get(key, 0), end)
        last = max(last, end)
    return last


def locks_of(transaction: Transaction) -> list[tuple[int, int, bool]]:
    """(key, operation that first touches it, whether it is ever written), each key once."""
    first: dict[int, int] = {}
    for at, (_, key) in enumerate(transaction):
        first.setdefault(key, at)
    written = {key for kind, key in transaction if kind == "w"}
    return [(key, at, key in written) for key, at in first.items()]


def _schedule(output: object, count: int) -> list[int]:
    """Raises ValueError unless it names every transaction once."""
    if not isinstance(output, list) or len(output) != count:
        raise ValueError(f"a schedule must be a list of {count} transactions")
    if not all(type(number) is int for number in output) or sorted(output) != list(range(count)):
        raise ValueError(f"a schedule must name each transaction from 0 to {count - 1} once")
    return output


@functools.lru_cache(maxsize=4)
def _batches(seed: int, transactions: int) -> tuple[list[Transaction], ...]:
    return tuple(workload(name, seed, transactions) for name in MIXES)
