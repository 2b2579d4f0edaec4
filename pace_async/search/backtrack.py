"""Going back: an island takes up an older state of its own, and what it had thought of since comes back later.

A snapshot is taken whenever an island finds a new best; number 0 is the task's own program with no idea. Snapshot k of
the history is drawn in proportion to (k + 1)^−1.5, so mostly an old one: of four, with probabilities 0.60, 0.21, 0.12
and 0.07. Its program is then the island's only member and its ideas the pool, for `search.backtrack_stay` rollouts;
after them the ideas set aside join the pool again. Programs do not: the island goes on from the older one. Nothing is
lost by that, the record keeps every program, and the other islands go on seeing the best that this one ever had.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

from pace_async.search.ideas import Pool, mingle
from pace_async.search.state import Island, Snapshot

EXPONENT = -1.5
SNAPSHOTS_KEPT = 64


def choose_snapshot(length: int, draw: random.Random) -> int:
    """The number of a snapshot of a history of `length` ≥ 1; one number is drawn."""
    return draw.choices(range(length), [(k + 1) ** EXPONENT for k in range(length)])[0]


def remembered(history: Sequence[Snapshot], new: Snapshot) -> tuple[Snapshot, ...]:
    """The history with one more snapshot. Beyond SNAPSHOTS_KEPT the one goes whose neighbours are the closest in age,
    never the oldest or the newest, so that what stays spans the whole search evenly."""
    longer = (*history, new)
    if len(longer) <= SNAPSHOTS_KEPT:
        return longer
    ages = [snapshot.best.candidate for snapshot in longer]
    dense = min(range(1, len(longer) - 1), key=lambda place: ages[place + 1] - ages[place - 1])
    return (*longer[:dense], *longer[dense + 1 :])


def gone_back(island: Island, number: int, stay: int) -> Island:
    """The island at snapshot `number` of its history, what it thinks of now set aside for `stay` rollouts."""
    snapshot = island.course.history[number]
    course = replace(island.course, stay=stay, aside=island.ideas)
    return replace(island, members=(snapshot.best,), ideas=snapshot.ideas, visits={}, course=course)


def one_step_of_stay(island: Island, cap: int) -> Island:
    """The island once another of its rollouts has ended: after the last of its stay it has its ideas together again."""
    course = island.course
    if course.stay == 0:
        return island
    if course.stay > 1:
        return replace(island, course=replace(course, stay=course.stay - 1))
    ideas: Pool = mingle(course.aside, island.ideas, cap)
    return replace(island, ideas=ideas, course=replace(course, stay=0, aside=()))
