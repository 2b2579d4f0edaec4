"""The action of an island that has stopped improving: go back along its own history, or cross over with another one.

With A_i the island's progress, A_j that of another, j* the best other (the lowest number of equals), and the likeness
S = max(0, 1 − |A_i − A_j*|), each action is drawn in proportion to

    backtrack        max(0, A_i − A_j*) + S·(1 − A_i)·(1 − A_j*)
    cross with j     max(0, A_j − A_i) + [j = j*]·S·A_i·A_j*

So an island that is ahead explores again, one that is behind borrows, two with much progress combine, and two that are
both near the start explore. If all weights are near 0, or no other island has made progress, the island backtracks.
Worked example: A_i = 0.6, others 0.8 and 0.5. Then S = 0.8, backtrack has 0.8 · 0.4 · 0.2 = 0.064, crossing with the
first has 0.2 + 0.8 · 0.48 = 0.584, and with the second 0. So it backtracks with probability 0.064 / 0.648 = 0.099.

`decide` is called once, when the lease opens. The running search and the fold over the rows on resume both call
`after_action`. An island sees only what the others show: the best program and the pool of each as of its closed leases.

Crossover: an island takes over the ideas of another and starts its next rollout from the best program of that one.

The partner is seen as of its rollouts whose lease is closed, so under `--sync` as of the last group. Its ideas arrive
with their experiments and get new numbers. The cap holds: of both pools, the ideas used last stay.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pace_async.events import IdeaTaken, IslandActed
from pace_async.search.ideas import Pool, interleaved, words
from pace_async.search.islands import choose_snapshot, gone_back
from pace_async.search.state import Course, Idea, Island, Neighbours, Rules

NEAR_ZERO = 1e-9


@dataclass(frozen=True, slots=True)
class Odds:
    """Weights ≥ 0, not normalised. `crossover` is by partner."""

    backtrack: float
    crossover: Mapping[int, float]

    @property
    def total(self) -> float:
        """Their sum, > 0."""
        return self.backtrack + sum(self.crossover.values())


def is_due(course: Course, rules: Rules) -> bool:
    """Whether the island acts now: its momentum is almost gone, it has not acted lately, and it is not going back
    already. Before the second rollout momentum means nothing."""
    if not rules.backtracking or course.stay > 0:
        return False
    return course.momentum < rules.trigger and course.updates > 1 and course.since > rules.interval


def odds(own: float, others: Mapping[int, float]) -> Odds:
    """The weight of each action for progress `own` in [0, 1] and that of each other island by number."""
    if not others:
        return Odds(1.0, {})
    best = min(others, key=lambda number: (-others[number], number))
    top = others[best]
    alike = max(0.0, 1.0 - abs(own - top))
    crossover = {number: max(0.0, progress - own) for number, progress in sorted(others.items())}
    crossover[best] += alike * own * top
    weights = Odds(max(0.0, own - top) + alike * (1.0 - own) * (1.0 - top), crossover)
    return weights if weights.total > NEAR_ZERO else Odds(1.0, {})


def admitted(chances: Odds, actions: str) -> Odds | None:
    """The weights that the setting admits: all for "both", else those of "backtrack" or "crossover". None if no weight
    is left."""
    if actions == "backtrack":
        return Odds(1.0, {})
    if actions == "crossover":
        left = Odds(0.0, chances.crossover)
        return left if left.total > NEAR_ZERO else None
    return chances


def partner(chances: Odds, draw: random.Random) -> int | None:
    """The island to cross with, or None to backtrack. Draws one number."""
    left = draw.random() * chances.total - chances.backtrack
    chosen = None
    for number, weight in chances.crossover.items():
        if left < 0.0:
            break
        if weight > 0.0:
            chosen, left = number, left - weight
    return chosen


def decide(
    island: Island,
    others: Neighbours,
    rules: Rules,
    *,
    lease: int,
    draw: Callable[[], random.Random],
    at: float,
) -> IslandActed | None:
    """The island's action now, or None to go on. What the island itself shows in `others` is ignored. `draw` makes the
    generator if one is needed."""
    course = island.course
    if not is_due(course, rules):
        return None
    own = progress_of(island, rules)
    start = course.history[0].best.score
    reached = {
        number: rules.fitness.covered(start, elite.score)
        for number, elite in others.elites.items()
        if number != island.number and number in others.pools
    }
    chances = admitted(odds(own, reached), rules.actions)
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
        rival=max(reached.values(), default=None),
        probability=chances.backtrack / chances.total,
        at=at,
    )
    if chosen is None:
        number = choose_snapshot(len(course.history), generator)
        return replace(back, candidate=course.history[number].best.candidate, snapshot=number, stay=rules.stay)
    pool = others.pools[chosen]
    _, ideas_taken, _ = take_in(island.ideas, news(island.ideas, pool.ideas), island.next_idea, rules.ideas_kept)
    return replace(
        back,
        action="crossover",
        candidate=others.elites[chosen].candidate,
        partner=chosen,
        as_of=pool.lease,
        ideas=ideas_taken,
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
        pool, ideas_taken, next_idea = take_in(island.ideas, chosen, island.next_idea, rules.ideas_kept)
        if {idea.origin: idea.number for idea in ideas_taken} != origins:
            raise ValueError(f"the ideas of island {acted.partner} are not those that came over")
        island = replace(island, ideas=pool, next_idea=next_idea)
    return replace(island, course=replace(island.course, since=0, acted=acted))


def progress_of(island: Island, rules: Rules) -> float:
    """The progress of the island's present best from the task's own program towards the goal, in [0, 1]."""
    start, best = island.course.history[0].best, island.members[0]
    return rules.fitness.covered(start.score, best.score)


def reason_in_words(acted: IslandActed) -> str:
    """The reason in words."""
    rival = "no other island has made progress" if acted.rival is None else f"best other {acted.rival:.2f}"
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
    ideas_taken: list[IdeaTaken] = []
    for idea, arrives in interleaved(own, new)[-cap:]:
        if arrives:
            ideas_taken.append(
                IdeaTaken(number=next_number + len(ideas_taken), description=idea.description, origin=idea.number)
            )
        merged.append(replace(idea, number=ideas_taken[-1].number) if arrives else idea)
    return tuple(merged), tuple(ideas_taken), next_number + len(ideas_taken)
