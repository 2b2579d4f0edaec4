"""Which program is changed next, and which programs an island keeps.

Parent choice is PACEvolve's tournament: draw `size` of the `pool` best members, take the best of them. Elitist: only
the best matter. Equal scores go to the older candidate.
"""

import random
from collections.abc import Sequence

from pace_async.search.state import Member


def ranked(members: Sequence[Member], direction: str) -> list[Member]:
    """Best first; equal scores by age, oldest first."""
    sign = -1.0 if direction == "maximize" else 1.0
    return sorted(members, key=lambda member: (sign * member.score, member.candidate))


def choose_parent(members: Sequence[Member], direction: str, draw: random.Random, *, size: int, pool: int) -> Member:
    """The winner of one tournament. `members` must not be empty."""
    best = ranked(members, direction)[:pool]
    places = [draw.randrange(len(best)) for _ in range(size)]
    return best[min(places)]


def keep_best(members: Sequence[Member], direction: str, kept: int) -> tuple[Member, ...]:
    """At most `kept` members, the best, in order of rank."""
    return tuple(ranked(members, direction)[:kept])
