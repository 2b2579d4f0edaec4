"""How far one update moved the policy, and how far it may.

Measured on the tokens of the update's own group (suffix N), from their log-probabilities before and after the step. Let
r be the ratio of the probability after the step to the one before:

    k3        mean of r - 1 - ln r: how far the policy moved
    ess       effective sample size of r as a share: small if few tokens moved far
    sure_k3   k3 over the tokens to which the policy gave a probability of SURE or more before the step

The third detects a failure that the first two miss. Tokens about which the policy is sure are the form of an answer,
not a choice. No group gives evidence about them, so a sound step hardly moves them. AdamW can move them, because it
divides each weight's step by the size of its recent gradients. If these were near 0, one rare token moves the policy as
far as a whole group usually does, and the first moment repeats that move for ten updates.

A limit that rounding alone exceeds would shorten every step and teach nothing. `above_noise` sets it above.

A pure decision in numpy. Nothing here handles weights.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

from pace_async.learn.ratios import effective_share

Floats = npt.NDArray[np.float64]

SURE = 0.9
HALVINGS = 5
"""A step is halved at most this often, to 1/32 of its length."""

ABOVE = 4.0
"""A limit is at least this many times what noise moves. From one draw to the next k3 of noise varies by a factor of
2 to 3."""

LIMITS_OFF = "limits_off"
"""Key among a step's metrics: how many limits are off, because they cannot be told from noise."""

GROSS = 0.1
"""Only other weights move k3 so far: a limit that noise raises beyond it is off."""


@dataclass(frozen=True, slots=True)
class MovementLimits:
    """Limits on the movement of one update. None: no limit."""

    k3: float | None = None
    ess: float | None = None
    sure_k3: float | None = None

    @property
    def hold(self) -> bool:
        """Whether any limit is set, so that steps must be measured."""
        return (self.k3, self.ess, self.sure_k3) != (None, None, None)


@dataclass(frozen=True, slots=True)
class Movement:
    """Movement of the policy by one update. Not finite if the new weights give log-probabilities that are not."""

    k3: float
    ess: float
    sure_k3: float

    @property
    def metrics(self) -> dict[str, float]:
        """By their names among a step's metrics."""
        return {"moved_k3": self.k3, "moved_ess": self.ess, "moved_sure_k3": self.sure_k3}


def movement(before_N: Floats, after_N: Floats) -> Movement:
    """Movement from log-probabilities in nats. `sure_k3` is 0 if the policy was sure of no token."""
    with np.errstate(all="ignore"):
        log_ratio_N = after_N - before_N
        k3_N = np.maximum(0.0, np.expm1(log_ratio_N) - log_ratio_N)
        sure_N = before_N >= math.log(SURE)
        return Movement(
            float(k3_N.mean()), effective_share(log_ratio_N), float(k3_N[sure_N].mean()) if sure_N.any() else 0.0
        )


def above_noise(limits: MovementLimits, noise: Sequence[Movement]) -> MovementLimits:
    """The limits, none of them closer to nothing than ABOVE times the largest noise. One that cannot be told from noise
    is off. Noise that is not finite counts as none."""
    k3, ess, sure_k3 = limits.k3, limits.ess, limits.sure_k3
    for draw in noise:
        k3 = k3 if k3 is None or not isfinite(draw.k3) else max(k3, ABOVE * draw.k3)
        ess = ess if ess is None or not isfinite(draw.ess) else min(ess, 1.0 - ABOVE * (1.0 - draw.ess))
        sure_k3 = sure_k3 if sure_k3 is None or not isfinite(draw.sure_k3) else max(sure_k3, ABOVE * draw.sure_k3)
    return MovementLimits(
        None if k3 is not None and k3 > max(GROSS, limits.k3 or 0.0) else k3,
        None if ess is not None and ess <= 0.0 else ess,
        None if sure_k3 is not None and sure_k3 > max(GROSS, limits.sure_k3 or 0.0) else sure_k3,
    )


def noise_metrics(noise: Sequence[Movement], limits: MovementLimits, raised: MovementLimits) -> dict[str, float]:
    """By their names among a step's metrics: the largest noise, and the limits that it raised, with their new values,
    or switched off."""
    if not noise:
        return {}
    metrics = {
        "noise_k3": max(draw.k3 for draw in noise),
        "noise_ess": min(draw.ess for draw in noise),
        "noise_sure_k3": max(draw.sure_k3 for draw in noise),
    }
    for name in ("k3", "ess", "sure_k3"):
        before, after = getattr(limits, name), getattr(raised, name)
        if after is not None and after != before:
            metrics[f"raised_{name}"] = after
    off = [
        name for name in ("k3", "ess", "sure_k3") if getattr(limits, name) is not None and getattr(raised, name) is None
    ]
    return {**metrics, **({LIMITS_OFF: float(len(off))} if off else {})}


def beyond(moved: Movement, limits: MovementLimits) -> str:
    """The limit that the update exceeds, or "" if none. `sure_k3` comes last, because a step that exceeds only that
    limit is never discarded."""
    if limits.k3 is not None and not moved.k3 <= limits.k3:
        return f"k3 {moved.k3:.3g}, limit {limits.k3:g}"
    if limits.ess is not None and not moved.ess >= limits.ess:
        return f"effective sample size {moved.ess:.3g}, limit {limits.ess:g}"
    if limits.sure_k3 is not None and not moved.sure_k3 <= limits.sure_k3:
        return f"k3 of the tokens it was sure of {moved.sure_k3:.3g}, limit {limits.sure_k3:g}"
    return ""


def too_far(moved: Movement, limits: MovementLimits) -> str:
    """Why a step is discarded after HALVINGS halvings, or "" if it is taken."""
    reason = beyond(moved, MovementLimits(limits.k3, limits.ess))
    return f"the step moved the policy too far ({reason})" if reason else ""
