"""How far one update moved the policy, and how far it may.

Measured on the tokens of the update's own group (suffix N), their log-probabilities before the step and after it, with
r the ratio of after to before:

    k3        mean of r - 1 - ln r: how far the policy moved
    ess       effective sample size of r as a share: small where few tokens moved far
    sure_k3   k3 over the tokens to which the policy gave a probability of SURE or more before

The third sees what the first two cannot. Tokens of which the policy is sure are the form of an answer, not a choice:
no group gives evidence about them, so a sound step hardly moves them. AdamW can move them all the same, because it
divides each weight's step by the size of its recent gradients: where these were near 0, one rare token moves the policy
as far as a whole group does elsewhere, and the first moment repeats it for ten updates.

A pure decision, in numpy: nothing here knows of weights.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pace_async.learn.ratios import effective_share

Floats = npt.NDArray[np.float64]

SURE = 0.9
HALVINGS = 5
"""A step is halved so often at most, to 1/32 of its length."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far one update may move the policy; None: as far as it likes."""

    k3: float | None = None
    ess: float | None = None
    sure_k3: float | None = None

    @property
    def hold(self) -> bool:
        """Whether there is any limit, so that a step has to be measured."""
        return (self.k3, self.ess, self.sure_k3) != (None, None, None)


@dataclass(frozen=True, slots=True)
class Movement:
    """What one update did to the policy. Not finite where the weights it led to give no number."""

    k3: float
    ess: float
    sure_k3: float

    @property
    def metrics(self) -> dict[str, float]:
        """By the names that they have among a step's figures."""
        return {"moved_k3": self.k3, "moved_ess": self.ess, "moved_sure_k3": self.sure_k3}


def movement(before_N: Floats, after_N: Floats) -> Movement:
    """From log-probabilities in nats. `sure_k3` is 0 where the policy was sure of no token."""
    with np.errstate(all="ignore"):
        log_ratio_N = after_N - before_N
        k3_N = np.maximum(0.0, np.expm1(log_ratio_N) - log_ratio_N)
        sure_N = before_N >= math.log(SURE)
        return Movement(
            float(k3_N.mean()), effective_share(log_ratio_N), float(k3_N[sure_N].mean()) if sure_N.any() else 0.0
        )


def beyond(moved: Movement, limits: Limits) -> str:
    """Which limit the update went beyond, empty if none. Its form comes last, for a step that only went beyond that is
    never discarded."""
    if limits.k3 is not None and not moved.k3 <= limits.k3:
        return f"k3 {moved.k3:.3g}, limit {limits.k3:g}"
    if limits.ess is not None and not moved.ess >= limits.ess:
        return f"effective sample size {moved.ess:.3g}, limit {limits.ess:g}"
    if limits.sure_k3 is not None and not moved.sure_k3 <= limits.sure_k3:
        return f"k3 of the tokens it was sure of {moved.sure_k3:.3g}, limit {limits.sure_k3:g}"
    return ""


def too_far(moved: Movement, limits: Limits) -> str:
    """Why a step that was halved as often as may be is discarded; empty if it is taken."""
    why = beyond(moved, Limits(limits.k3, limits.ess))
    return f"the step moved the policy too far ({why})" if why else ""
