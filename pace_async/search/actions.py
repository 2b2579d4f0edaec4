"""What an island does that has stopped improving: go back along its own history, or cross over with another island.

With A_i the island's progress, A_j that of another, j* the best other (the lowest number of equals), and the likeness
S = max(0, 1 − |A_i − A_j*|), each action is drawn in proportion to

    backtrack        max(0, A_i − A_j*) + S·(1 − A_i)·(1 − A_j*)
    cross with j     max(0, A_j − A_i) + [j = j*]·S·A_i·A_j*

so an island that is ahead explores again, one that is behind borrows, two that are both far along combine, and two that
are both near the start explore. Where all is near 0, or nobody else has come anywhere: backtrack. Worked example:
A_i = 0.6, others 0.8 and 0.5: S = 0.8, backtrack 0.8 · 0.4 · 0.2 = 0.064, cross with the first 0.2 + 0.8 · 0.48 =
0.584, with the second 0; so it backtracks with probability 0.064 / 0.648 = 0.099.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from pace_async.search.state import Course, Rules

NEAR_ZERO = 1e-9


@dataclass(frozen=True, slots=True)
class Odds:
    """Weights ≥ 0, not normalised; `crossover` by partner."""

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
    crossover = {number: max(0.0, there - own) for number, there in sorted(others.items())}
    crossover[best] += alike * own * top
    found = Odds(max(0.0, own - top) + alike * (1.0 - own) * (1.0 - top), crossover)
    return found if found.total > NEAR_ZERO else Odds(1.0, {})


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
    """The island to cross with, or None to backtrack; one number is drawn."""
    left = draw.random() * chances.total - chances.backtrack
    chosen = None
    for number, weight in chances.crossover.items():
        if left < 0.0:
            break
        if weight > 0.0:
            chosen, left = number, left - weight
    return chosen
