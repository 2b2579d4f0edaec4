"""Parent choice by PUCT with state reuse (TTT-Discover): any program so far may be chosen again.

The parent is the member with the highest

    Q(s) + c · P(s) · √(1 + T) / (1 + n(s))

Q is the best score among the children of s, or its own score without children, scaled so that the members lie in [0,
1]. P is the prior, in proportion to the rank from below, with sum 1. n counts rollouts from s or its descendants, and T
those from any member. c is `search.puct_exploration`. Nothing is drawn. Equal values go to the better member, then to
the older. Worked example, maximising, c = 1, nothing tried yet: scores 1 and 2 have Q 0 and 1, P 1/3 and 2/3, T = 0, so
1/3 and 5/3, and the second is chosen. After three rollouts from it without a child of 2 or better (the best one 1.5,
now a member too), T = 3 and Q = 0, 0.5 and 0.5 (it, its child). P 1/6, 3/6, 2/6 and n 0, 3, 0 give 1/3, 0.75 and 7/6,
so the child is chosen.
"""

import math
import random
from collections.abc import Mapping, Sequence

from pace_async.config import SearchConfig
from pace_async.search.state import UNTRIED, Island, Member, Visits


def puct(island: Island, search: SearchConfig, draw: random.Random) -> Member:
    """The parent rule `puct`."""
    return choose_puct(island.members, island.visits, search.puct_exploration)


def choose_puct(members: Sequence[Member], visits: Mapping[int, Visits], exploration: float) -> Member:
    """The member with the highest value. `members` are the best first, at least one."""
    top, bottom = members[0].score, members[-1].score
    spread = (top - bottom) or 1.0
    total = len(members) * (len(members) + 1) / 2
    records = [visits.get(member.candidate, UNTRIED) for member in members]
    expansions = sum(record.expansions for record in records if record.parent is None)

    def value(place: int) -> float:
        record = records[place]
        reached = members[place].score if record.best_child is None else record.best_child
        prior = (len(members) - place) / total
        bonus = exploration * prior * math.sqrt(1 + expansions) / (1 + record.expansions)
        return (reached - bottom) / spread + bonus

    return members[max(range(len(members)), key=lambda place: (value(place), -place))]
