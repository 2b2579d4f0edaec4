"""Off-policy correction: a weight >= 0 for each token that another policy sampled.

Let r = pi / pi_sampled, where pi is the policy at the start of the step and pi_sampled the policy that sampled the
token. Let a be the token's age in updates, and cap(a) = 1 + (cap - 1) * age_cap ** a the truncation at that age. The
weight is

    behaviour   min(1, cap(a) / r): the surrogate keeps its own ratio r. Its clip bounds every term except negative
                advantages at large r, which count as cap(a)
    decoupled   min(r, cap(a)): the surrogate's ratio is against the policy at the start of the step, so it is 1 and its
                clip is inert
    sequence    as decoupled, with the product of r over the call in place of r. Without a cap the gradient is unbiased
    geometric   as decoupled, with the geometric mean of r over the call in place of r
    m2po        as decoupled, for the tokens of the group that `m2po` keeps, and 0 for the others
    none        1, whichever policy sampled the token: as decoupled without a correction, to compare with

The truncation of a whole call is that of its oldest token.

Invariant: weights are finite and >= 0. So they commute with min(rA, clip(r)A) and are multiplied into the advantages. A
token has weight 0 if its log-ratio exceeds BROKEN or is NaN: versions a few steps apart never differ that much. A group
gets one optimizer step, so the policy at its start is the policy of the forward pass itself. Numpy only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pace_async.registry.corrections import CORRECTIONS

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

BROKEN = 30.0
"""Log-ratio limit of one token, in nats. No sound policy moves by a factor of e^30."""
LARGEST = 30.0
"""Limit of the log weight of a whole call, in nats: a long call without a cap would have no finite weight."""


@dataclass(frozen=True, slots=True)
class Correction:
    """Settings of the weights. `cap` None: no truncation. `age_cap` of 1 ignores age. `second_moment` is the limit
    of `m2po`."""

    kind: str = "decoupled"
    cap: float | None = 2.0
    age_cap: float = 0.5
    second_moment: float = 0.04


@dataclass(frozen=True, slots=True)
class TokenWeights:
    """For each token: its weight, whether the cap truncated it, whether its log-ratio is broken."""

    weights_BT: Floats
    truncated_BT: Booleans
    broken_BT: Booleans


class WeightFunction(Protocol):
    """Type of the functions in `registry.corrections.CORRECTIONS`."""

    def __call__(self, log_ratio_BT: Floats, log_cap_BT: Floats, /) -> Floats:
        """Log weights of the tokens, for finite log-ratios. Without a cap, `log_cap_BT` is inf."""
        ...


class TokenSelection(Protocol):
    """Type of what chooses tokens of a group."""

    def __call__(self, log_ratio_N: Floats, limit: float, /) -> Booleans:
        """Which of all tokens of a group count, for finite log-ratios. `limit` is `Correction.second_moment`."""
        ...


class RatioFunction(Protocol):
    """Type of the corrections of whole calls, one call per row."""

    def __call__(self, log_ratio_BT: Floats, valid_BT: Booleans, /) -> Floats:
        """Log-ratio of calls, (B, 1). `log_ratio_BT` is finite, and 0 where not valid."""
        ...


def weigh(
    log_ratio_BT: Floats,
    valid_BT: Booleans,
    ages_BT: Ints,
    rule: Correction,
    *,
    kept_BT: Booleans | None = None,
) -> TokenWeights:
    """Weights of the tokens of some calls, one call per row. Invalid tokens have weight 0. Ages are >= 0. `kept_BT` is
    part of what `selection` found for the whole group. None: these calls are the group."""
    kind = CORRECTIONS[rule.kind]
    broken_BT = valid_BT & ~(np.abs(log_ratio_BT) <= BROKEN)
    counts_BT = valid_BT & ~broken_BT
    safe_BT = np.where(counts_BT, log_ratio_BT, 0.0)
    log_cap_BT = _log_cap(ages_BT, rule if kind.is_capped else replace(rule, cap=None))
    if kind.of_calls is not None:
        log_weights_BT = np.broadcast_to(kind.of_calls()(safe_BT, counts_BT), safe_BT.shape)
        counts_BT &= ~broken_BT.any(axis=1, keepdims=True)  # the ratio of their call is not known
        smallest_B1 = np.where(valid_BT, log_cap_BT, np.inf).min(axis=1, keepdims=True)
        truncated_BT = counts_BT & (log_weights_BT > smallest_B1)
        log_weights_BT = np.minimum(log_weights_BT, np.minimum(smallest_B1, LARGEST))
    else:
        truncated_BT = counts_BT & (safe_BT > log_cap_BT)
        log_weights_BT = kind.load()(safe_BT, log_cap_BT)
    if kind.selects:
        counts_BT &= selection([log_ratio_BT], [valid_BT], rule)[0] if kept_BT is None else kept_BT
    return TokenWeights(np.where(counts_BT, np.exp(log_weights_BT), 0.0), truncated_BT, broken_BT)


def selection(log_ratios: Sequence[Floats], valid: Sequence[Booleans], rule: Correction) -> list[Booleans]:
    """Which tokens of a group its correction keeps, given all micro-batches of the group, (B, T) each. Broken tokens
    are not kept. For a correction that selects."""
    sound = [
        valid_BT & (np.abs(log_ratio_BT) <= BROKEN) for log_ratio_BT, valid_BT in zip(log_ratios, valid, strict=True)
    ]
    whole_N = np.concatenate([log_ratio_BT[mask] for log_ratio_BT, mask in zip(log_ratios, sound, strict=True)])
    selects = CORRECTIONS[rule.kind].selects
    kept_N = np.ones(whole_N.shape, np.bool_) if selects is None else selects()(whole_N, rule.second_moment)
    parts = np.split(kept_N, np.cumsum([mask.sum() for mask in sound])[:-1])
    kept = [np.zeros(mask.shape, np.bool_) for mask in sound]
    for kept_BT, mask, part in zip(kept, sound, parts, strict=True):
        kept_BT[mask] = part
    return kept


def _log_cap(ages_BT: Ints, rule: Correction) -> Floats:
    if rule.cap is None:
        return np.full(ages_BT.shape, np.inf)
    return np.log1p((rule.cap - 1.0) * rule.age_cap**ages_BT)


def behaviour(log_ratio_BT: Floats, log_cap_BT: Floats) -> Floats:
    """Weight 1, or less if the surrogate's own ratio exceeds the cap."""
    return np.minimum(0.0, log_cap_BT - log_ratio_BT)


def decoupled(log_ratio_BT: Floats, log_cap_BT: Floats) -> Floats:
    """The ratio, truncated at the cap."""
    return np.minimum(log_ratio_BT, log_cap_BT)


def uncorrected(log_ratio_BT: Floats, log_cap_BT: Floats) -> Floats:
    """Weight 1."""
    return np.zeros_like(log_ratio_BT)


def sequence(log_ratio_BT: Floats, valid_BT: Booleans) -> Floats:
    """Product over the call, (B, 1)."""
    return log_ratio_BT.sum(axis=1, keepdims=True)


def geometric(log_ratio_BT: Floats, valid_BT: Booleans) -> Floats:
    """Geometric mean over the call, (B, 1)."""
    return sequence(log_ratio_BT, valid_BT) / np.maximum(valid_BT.sum(axis=1, keepdims=True), 1)
