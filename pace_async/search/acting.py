"""The action an island takes as it opens a lease, as a fact, and what the fact does to the island.

`decide` is asked once, when the lease opens; `after_action` is what the running search and the fold over the rows on
resume have in common. An island sees the others only as they may be seen: the best program and the pool of each as of
the leases that are closed.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from pace_async.events import IslandActed
from pace_async.search.actions import admitted, is_due, odds, partner
from pace_async.search.backtrack import choose_snapshot, gone_back
from pace_async.search.crossover import news, take_in
from pace_async.search.ideas import Pool
from pace_async.search.momentum import progress
from pace_async.search.parents import best_of
from pace_async.search.state import Island, Member, Rules, Shown


def decide(
    island: Island,
    elites: Mapping[int, Member],
    pools: Mapping[int, Shown],
    rules: Rules,
    *,
    lease: int,
    draw: Callable[[], random.Random],
    at: float,
) -> IslandActed | None:
    """What the island does now, or None to go on. `elites` and `pools` are the best program and the ideas of each
    island that has closed a lease (the island's own are ignored). `draw` makes the generator, where one is needed."""
    course = island.course
    if not is_due(course, rules):
        return None
    own = progress_of(island, rules)
    start = course.history[0].best.score
    others = {
        number: progress(start, elite.score, rules.goal, rules.direction)
        for number, elite in elites.items()
        if number != island.number and number in pools
    }
    chances = admitted(odds(own, others), rules.actions)
    if chances is None:
        return None
    generator = draw()
    chosen = partner(chances, generator)
    back = IslandActed(
        lease=lease,
        island=island.number,
        action="backtrack",
        candidate=0,
        snapshot=None,
        stay=0,
        partner=None,
        as_of=None,
        ideas=(),
        momentum=course.momentum,
        rollouts=course.since,
        progress=own,
        rival=max(others.values(), default=None),
        probability=chances.backtrack / chances.total,
        at=at,
    )
    if chosen is None:
        number = choose_snapshot(len(course.history), generator)
        return replace(back, candidate=course.history[number].best.candidate, snapshot=number, stay=rules.stay)
    shown = pools[chosen]
    _, taken, _ = take_in(island.ideas, news(island.ideas, shown.ideas), island.next_idea, rules.ideas_kept)
    return replace(
        back,
        action="crossover",
        candidate=elites[chosen].candidate,
        partner=chosen,
        as_of=shown.lease,
        ideas=taken,
        probability=chances.crossover[chosen] / chances.total,
    )


def after_action(island: Island, acted: IslandActed, arriving: Pool, rules: Rules) -> Island:
    """The island once it has acted. `arriving` is the partner's pool as of `acted.as_of`, empty for a backtrack. Raises
    ValueError where the island is not the one that acted so."""
    if acted.action == "backtrack":
        number = acted.snapshot if acted.snapshot is not None else -1
        if not 0 <= number < len(island.course.history):
            raise ValueError(f"there is no snapshot {acted.snapshot}")
        if island.course.history[number].best.candidate != acted.candidate:
            raise ValueError(f"snapshot {number} does not hold candidate {acted.candidate}")
        island = gone_back(island, number, acted.stay)
    else:
        origins = {idea.origin: idea.number for idea in acted.ideas}
        chosen = tuple(idea for idea in arriving if idea.number in origins)
        pool, taken, next_idea = take_in(island.ideas, chosen, island.next_idea, rules.ideas_kept)
        if {idea.origin: idea.number for idea in taken} != origins:
            raise ValueError(f"the ideas of island {acted.partner} are not those that came over")
        island = replace(island, ideas=pool, next_idea=next_idea)
    return replace(island, course=replace(island.course, since=0, acted=acted))


def progress_of(island: Island, rules: Rules) -> float:
    """How far the island's present best is from the task's own program towards the goal, within [0, 1]."""
    start, best = island.course.history[0].best, best_of(island.members, rules.direction)
    return progress(start.score, best.score, rules.goal, rules.direction)


def why(acted: IslandActed) -> str:
    """The reason in words."""
    rival = "no other has come anywhere" if acted.rival is None else f"best other {acted.rival:.2f}"
    return (
        f"momentum {acted.momentum:.2g} after {acted.rollouts} rollouts, progress {acted.progress:.2f}, {rival}, "
        f"drawn with probability {acted.probability:.2f}"
    )
