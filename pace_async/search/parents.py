"""Which program is changed next, and which programs an island keeps.

The default is PACEvolve's tournament: draw `size` of the `pool` best members, take the best of them. Elitist: only
the best matter. Equal scores go to the older candidate. By default most parents come from a tournament among the best
of all islands, so that one that is stuck goes on from where the others are; not while that one has gone back to an
older state of its own. The other ways to choose (`search.parents`) are in `puct` and `grid`; `choice` picks the way.
"""

import random
from collections.abc import Mapping, Sequence
from operator import attrgetter

from pace_async.search.state import Island, Member

_age, _score = attrgetter("candidate"), attrgetter("score")


def ranked(members: Sequence[Member], direction: str) -> list[Member]:
    """Best first; equal scores by age, oldest first."""
    return sorted(
        sorted(members, key=_age), key=_score, reverse=direction == "maximize"
    )  # a sort keeps equals in order


def choose_parent(members: Sequence[Member], direction: str, draw: random.Random, *, size: int, pool: int) -> Member:
    """The winner of one tournament. `members` must not be empty."""
    best = ranked(members, direction)[:pool]
    places = [draw.randrange(len(best)) for _ in range(size)]
    return best[min(places)]


def choose_among_best(members: Sequence[Member], direction: str, draw: random.Random, k: int) -> Member:
    """One of the best `k`, all alike. `members` must not be empty."""
    return draw.choice(ranked(members, direction)[:k])


def choose_migrant(
    elites: Mapping[int, Member],
    island: Island,
    direction: str,
    draw: random.Random,
    *,
    probability: float,
    size: int,
) -> Member | None:
    """With `probability`, the winner of a tournament among the best programs of all islands: `size` different ones are
    drawn, and the best of them wins. None if that is the island's own, and always while the island has gone back.
    `elites` has the best of each island that has any, as the others may see it."""
    if draw.random() >= probability or island.course.stay > 0:
        return None
    bests = {**elites, island.number: best_of(island.members, direction)}
    drawn = draw.sample(sorted(bests), min(size, len(bests)))
    winner = best_of([bests[number] for number in drawn], direction)
    return None if winner == bests[island.number] else winner


def fitter(direction: str, a: Member | None, b: Member) -> Member:
    """The better of two; equal scores go to the older candidate."""
    return b if a is None else best_of((a, b), direction)


def best_of(members: Sequence[Member], direction: str) -> Member:
    """The best of `members`, which must not be empty; equal scores go to the older candidate."""
    scores = [member.score for member in members]
    top = max(scores) if direction == "maximize" else min(scores)
    return min((member for member in members if member.score == top), key=_age)


def keep_best(members: Sequence[Member], direction: str, kept: int) -> tuple[Member, ...]:
    """At most `kept` members, the best, in order of rank."""
    return tuple(ranked(members, direction)[:kept])
