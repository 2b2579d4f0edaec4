"""How a score stands: to what fresh instances said of it, and to the best that is known of the task.

Pure. The share of the best known is score / known where more is better and known / score where less is, so that 1 is
equal and more than 1 is better than what was known; there is none unless both are above 0.
"""

import math

from pace_async.observe import words


def share_of_best_known(score: float | None, known: float | None, direction: str) -> float | None:
    """See the module; None also where nothing is known."""
    if score is None or known is None or score <= 0 or known <= 0:
        return None
    return score / known if direction == "maximize" else known / score


def to_best_known(score: float, known: float | None, direction: str, *, named: bool = True) -> str:
    """`0.989 of the best known 2.6360`, without the number unless `named`; empty where nothing is known. Rounded down,
    so that only what is as good is called 1.000."""
    if known is None:
        return ""
    value = f" {words.score(known)}" if named else ""
    share = share_of_best_known(score, known, direction)
    if share is None:
        return f"best known{value}" if named else ""
    if share > 1:
        return f"better than the best known{value}"
    return f"{math.floor(1000 * share) / 1000:.3f} of the best known{value}"


def on_fresh(score: float | None, *, long: bool = True) -> str:
    """What a confirmed best scored where no other score of the run comes from; empty where it was not tried."""
    return "" if score is None else f"{words.score(score)} {'on fresh instances' if long else 'fresh'}"
