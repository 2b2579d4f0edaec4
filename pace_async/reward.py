"""The reward of a score, and the comparison of two scores.

The reward is progress between the task's bounds, clamped, scaled, and -1 for a candidate's failure.

In a cascade, a candidate stopped by a cheap stage has reward 0, that of no progress. It did not fail, and no full score
has a lower reward. The score of the cheap stage earns nothing because it is another measure: otherwise a stop just
below the threshold could be worth more than passing it.

Paper, "Progress-normalized reward shaping". A failure of the infrastructure never reaches this function, because it is
no reward at all.
"""

import math

FAILURE = -1.0
STOPPED = 0.0


def better(direction: str, a: float, b: float) -> bool:
    """Whether score `a` is strictly better than `b`."""
    return a > b if direction == "maximize" else a < b


def progress(score: float, *, direction: str, lower: float, upper: float) -> float:
    """u(y) in [0, 1]: how far a score lies from the worse bound towards the better one."""
    raw = (score - lower) if direction == "maximize" else (upper - score)
    return min(1.0, max(0.0, raw / (upper - lower)))


def reward(
    score: float | None,
    *,
    direction: str,
    lower: float,
    upper: float,
    scale: float = 5.0,
    exponent: float = 1.0,
) -> float:
    """scale * u(score) ** exponent, or -1 without a finite score. Not for a candidate that a cheap stage stopped, whose
    reward is STOPPED."""
    if score is None or not math.isfinite(score):
        return FAILURE
    return scale * progress(score, direction=direction, lower=lower, upper=upper) ** exponent
