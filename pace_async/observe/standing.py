"""How a score compares with its value on fresh instances and with the task's best known score.

Pure. The share of the best known is score / known where higher is better, and known / score where lower is better. So 1
is equal, and more than 1 is better than the best known. There is no share unless both are above 0.
"""

import math

from pace_async.events import RunHeader
from pace_async.fitness import Fitness
from pace_async.observe import formatting

UNCHANGED = "fresh seeds change nothing"
"""In place of a fresh score that is the score itself."""


def share_of_best_known(score: float | None, known: float | None, fitness: Fitness) -> float | None:
    """The share as the module defines it, None also if no best known score is given."""
    if score is None or known is None or score <= 0 or known <= 0:
        return None
    return fitness.ratio(score, known)


def to_best_known(score: float, known: float | None, fitness: Fitness, *, named: bool = True) -> str:
    """`0.989 of the best known 2.6360`, without the number unless `named`, empty without a best known score. Rounded
    down, so that 1.000 means equal or better."""
    if known is None:
        return ""
    value = f" {formatting.score(known)}" if named else ""
    share = share_of_best_known(score, known, fitness)
    if share is None:
        return f"best known{value}" if named else ""
    if share > 1:
        return f"better than the best known{value}"
    return f"{math.floor(1000 * share) / 1000:.3f} of the best known{value}"


def tried_again(*, shares_trust: bool) -> str:
    """Where a best was confirmed. An evaluator that shares a sandbox with the program is called once more, with no
    seed."""
    return "in a second evaluation" if shares_trust else "with a fresh seed"


def says_nothing(score: float, fresh: float | None, header: RunHeader) -> bool:
    """Whether a fresh score tells nothing beside the score: it is equal to the last digit, because fresh seeds give the
    same instances, or make no difference. A second evaluation that chooses the best always tells something."""
    return fresh == score and not header.by_confirmed


def on_fresh(score: float, fresh: float | None, header: RunHeader, *, long: bool = True) -> str:
    """The score of a confirmed best on fresh instances, which no other score of the run uses, or in a second
    evaluation. Empty if it was not tried."""
    if fresh is None:
        return ""
    if says_nothing(score, fresh, header):
        return UNCHANGED if long else "same fresh"
    short = "again" if header.shares_trust else "fresh"
    return f"{formatting.score(fresh)} {tried_again(shares_trust=header.shares_trust) if long else short}"
