"""The action of an island when it opens a lease, as a fact, and what the fact does to the island.

`decide` is asked once, when the lease opens. The running search and the fold over the rows on resume both call
`after_action`. An island sees only what the others show: the best program and the pool of each as of its closed leases.

Crossover: an island takes over the ideas of another and starts its next rollout from the best program of that one.

The partner is seen as of its rollouts whose lease is closed, so under `--sync` as of the last group. Its ideas arrive
with their experiments and get new numbers. The cap holds: of both pools, the ideas used last stay.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from pace_async.events import IdeaTaken, IslandActed
from pace_async.search.actions import admitted, is_due, odds, partner
from pace_async.search.course import choose_snapshot, gone_back, progress
from pace_async.search.ideas import Pool, interleaved, words
from pace_async.search.state import Idea, Island, Member, Rules, Shown


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
    island that has closed a lease; the island's own are ignored. `draw` makes the generator, where one is needed."""
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
    """The island after its action. `arriving` is the partner's pool as of `acted.as_of`, empty for a backtrack. Raises
    ValueError for another island's action."""
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
    """The progress of the island's present best from the task's own program towards the goal, in [0, 1]."""
    start, best = island.course.history[0].best, island.members[0]
    return progress(start.score, best.score, rules.goal, rules.direction)


def why(acted: IslandActed) -> str:
    """The reason in words."""
    rival = "no other has come anywhere" if acted.rival is None else f"best other {acted.rival:.2f}"
    return (
        f"momentum {acted.momentum:.2g} after {acted.rollouts} rollouts, progress {acted.progress:.2f}, {rival}, "
        f"drawn with probability {acted.probability:.2f}"
    )


def news(pool: Pool, theirs: Pool) -> Pool:
    """The partner's ideas that are not in `pool` in the same words."""
    known = {words(idea.description) for idea in pool}
    return tuple(idea for idea in theirs if words(idea.description) not in known)


def take_in(pool: Pool, arriving: Pool, next_number: int, cap: int) -> tuple[Pool, tuple[IdeaTaken, ...], int]:
    """(pool, what was taken in, next number). Pools are ordered by use, the stalest first. At equal place an arriving
    idea counts as used later. Given only the ideas that were taken, the result is the same."""
    own, new = [(idea, False) for idea in pool], [(idea, True) for idea in arriving]
    merged: list[Idea] = []
    taken: list[IdeaTaken] = []
    for idea, arrives in interleaved(own, new)[-cap:]:
        if arrives:
            taken.append(IdeaTaken(number=next_number + len(taken), description=idea.description, origin=idea.number))
        merged.append(replace(idea, number=taken[-1].number) if arrives else idea)
    return tuple(merged), tuple(taken), next_number + len(taken)
