"""Which candidates of a long run are told with their idea and experiment. Pure."""

import heapq
from collections.abc import Iterable

BEST = 64
"""The best candidates are told, whatever came before them."""


def worth_telling(rows: Iterable[tuple[int, float | None, int | None, int | None]]) -> set[int]:
    """The best candidates with all their ancestors, and every one that was better than all before it on its island.
    `rows` has (candidate, merit, parent, island), in the order of completion."""
    told: set[int] = set()
    record: dict[int | None, float] = {}
    parents: dict[int, int | None] = {}
    scored: list[tuple[float, int]] = []
    for candidate, merit, parent, island in rows:
        parents[candidate] = parent
        if merit is None:
            continue
        scored.append((merit, -candidate))
        if merit > record.get(island, float("-inf")):
            record[island] = merit
            told.add(candidate)
    for _, negative in heapq.nlargest(BEST, scored):
        at: int | None = -negative
        line: set[int] = set()
        while at is not None and at in parents and at not in line:
            line.add(at)
            at = parents[at]
        told |= line
    return told
