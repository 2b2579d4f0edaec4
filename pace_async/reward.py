"""Reward from score: progress between the task's bounds, clamped, scaled; -1 for a candidate's failure.

Where a task has a cascade, a candidate that a cheap stage stopped has the reward of no progress, 0: it did not fail,
and no score that was paid for is rewarded less. The score of the cheap stage earns nothing, because it is another
measure: else to be stopped just below the threshold could be worth more than to pass it.

Paper, "Progress-normalized reward shaping". A failure of the infrastructure never reaches this function: it is not a
reward at all.
"""

import math

FAILURE = -1.0
STOPPED = 0.0


def progress(score: float, *, direction: str, lower: float, upper: float) -> float:
    """u(y) in [0, 1]: how far a score lies from the bound that is worse to the one that is better."""
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
    stopped: bool = False,
) -> float:
    """scale * u(score) ** exponent, or -1 where there is no finite score; 0 for a candidate that was `stopped` below
    the threshold of a cheap stage."""
    if stopped:
        return STOPPED
    if score is None or not math.isfinite(score):
        return FAILURE
    return scale * progress(score, direction=direction, lower=lower, upper=upper) ** exponent
