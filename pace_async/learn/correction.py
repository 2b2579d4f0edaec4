"""How much a token counts that another policy sampled: a weight >= 0 for each.

Let r = pi / pi_sampled, the ratio of the policy as the step begins to the one that sampled the token, a the token's age
in updates, and cap(a) = 1 + (cap - 1) * age_cap ** a the truncation at that age. The weight is

    behaviour   min(1, cap(a) / r): the surrogate keeps its own ratio r, and its clip bounds all but negative advantages
                at large r, which count as cap(a)
    decoupled   min(r, cap(a)): the surrogate's ratio is against the policy as the step begins, so it is 1 and its clip
                is inert

times age_decay ** a, times 0 where the mask finds a ratio outside [mask_low, mask_high]: of the token (`token`), the
product over its call (`sequence`), or the geometric mean over its call (`geometric`).

Invariant: weights are finite and >= 0, so they commute with min(rA, clip(r)A) and ride in the advantages. A token whose
log-ratio is beyond BROKEN or no number counts nothing: no two versions a few steps apart are so far from each other.
One optimizer step is taken on a group, so "as the step begins" is the policy of the forward pass itself. Numpy only.
"""

from dataclasses import dataclass
from math import log
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

BROKEN = 30.0
"""Nats between two policies at one token: e^30 is beyond any policy's doing."""


@dataclass(frozen=True, slots=True)
class Correction:
    """Which weights. `cap` None truncates nothing; `age_cap` and `age_decay` of 1 do not look at age."""

    kind: Literal["behaviour", "decoupled"] = "decoupled"
    cap: float | None = 2.0
    age_cap: float = 0.5
    age_decay: float = 1.0
    mask: Literal["none", "token", "sequence", "geometric"] = "none"
    mask_low: float = 0.5
    mask_high: float = 2.0


@dataclass(frozen=True, slots=True)
class Weighed:
    """For each token: its weight, whether the cap cut it, whether its log-ratio was broken."""

    weights_BT: Floats
    truncated_BT: Booleans
    broken_BT: Booleans


def weigh(log_ratio_BT: Floats, valid_BT: Booleans, ages_BT: Ints, rule: Correction) -> Weighed:
    """Weights of the tokens of some calls, one call a row; 0 where not `valid`. Ages are >= 0."""
    broken_BT = valid_BT & ~(np.abs(log_ratio_BT) <= BROKEN)
    safe_BT = np.where(valid_BT & ~broken_BT, log_ratio_BT, 0.0)
    log_cap_BT = _log_cap(ages_BT, rule)
    truncated_BT = valid_BT & ~broken_BT & (safe_BT > log_cap_BT)
    if rule.kind == "decoupled":
        log_weight_BT = np.minimum(safe_BT, log_cap_BT)
    else:
        log_weight_BT = np.minimum(0.0, log_cap_BT - safe_BT)
    weights_BT = np.exp(log_weight_BT) * rule.age_decay**ages_BT
    counts_BT = valid_BT & ~broken_BT & _inside(log_ratio_BT, valid_BT, rule)
    return Weighed(np.where(counts_BT, weights_BT, 0.0), truncated_BT, broken_BT)


def _log_cap(ages_BT: Ints, rule: Correction) -> Floats:
    if rule.cap is None:
        return np.full(ages_BT.shape, np.inf)
    return np.log1p((rule.cap - 1.0) * rule.age_cap**ages_BT)


def _inside(log_ratio_BT: Floats, valid_BT: Booleans, rule: Correction) -> Booleans:
    """Where the mask lets a token count. A ratio that is no number is outside, with its call."""
    if rule.mask == "none":
        return np.ones_like(valid_BT)
    measured_BT = np.where(valid_BT, log_ratio_BT, 0.0)
    if rule.mask != "token":
        with np.errstate(invalid="ignore"):  # +inf and -inf in one call
            sums_B1 = measured_BT.sum(axis=1, keepdims=True)
        lengths_B1 = valid_BT.sum(axis=1, keepdims=True) if rule.mask == "geometric" else 1
        measured_BT = np.broadcast_to(sums_B1 / np.maximum(lengths_B1, 1), valid_BT.shape)
    return (measured_BT >= log(rule.mask_low)) & (measured_BT <= log(rule.mask_high))
