"""Which candidates of a long run are shown with their idea and experiment. Pure."""

import heapq
from collections.abc import Collection
from typing import Any

from pace_async.fitness import Fitness

BEST = 64
"""The best candidates are shown, whatever came before them."""


def worth_telling(rows: Collection[Any], fitness: Fitness) -> set[int]:
    """The best candidates with all their ancestors, and every one that was better than all before it on its island.
    `rows` has (candidate, outcome, score, parent, island, at) in the order of completion."""
    selection: set[int] = set()
    record: dict[int | None, float] = {}
    scored: list[tuple[float, int]] = []
    for candidate, _, score, _, island, _ in rows:
        if score is None:
            continue
        merit = fitness.merit(score)
        scored.append((merit, -candidate))
        if merit > record.get(island, float("-inf")):
            record[island] = merit
            selection.add(candidate)
    parents = {row[0]: row[3] for row in rows}
    for _, negative in heapq.nlargest(BEST, scored):
        at: int | None = -negative
        line: set[int] = set()
        while at is not None and at in parents and at not in line:
            line.add(at)
            at = parents[at]
        selection |= line
    return selection
