"""Advantages from the rewards of one group: values in, values out, one objective a file.

`advantages(name, ...)` is the only way in. Rewards are a group of B floats; the result is B floats, or a `Collapsed`
that says which branch carried no signal, so that the update is skipped instead of normalising noise.
"""

from collections.abc import Sequence

import numpy as np

from pace_async.objectives.base import Collapsed
from pace_async.objectives.entropic import entropic
from pace_async.objectives.grpo import grpo
from pace_async.objectives.maxk import maxk
from pace_async.objectives.phase_adaptive import phase_adaptive
from pace_async.objectives.schedule import NO_SPREADS, Schedule, Spreads, alpha_at

__all__ = ["NO_SPREADS", "Advantages", "Collapsed", "Schedule", "Spreads", "advantages", "alpha_at"]

Advantages = list[float] | Collapsed


def advantages(name: str, rewards: Sequence[float], *, k: int, alpha: float, restandardise: bool = False) -> Advantages:
    """B advantages for B rewards, all finite. `alpha` and `restandardise` (the mixture once more, as the authors' code
    does) concern `pace` alone. Raises ValueError for a bad k, a reward that is not finite, or an unknown name."""
    rewards_B = np.asarray(rewards, dtype=np.float64)
    if rewards_B.ndim != 1 or rewards_B.size == 0 or not np.isfinite(rewards_B).all():
        raise ValueError("rewards must be a non-empty list of finite numbers")
    if not 1 <= k <= rewards_B.size:
        raise ValueError(f"k must lie between 1 and the number of rewards ({rewards_B.size}), not {k}")
    with np.errstate(over="ignore", invalid="ignore"):  # rewards beyond 1e154: the spread is inf, a collapse
        match name:
            case "pace":
                result = phase_adaptive(rewards_B, k=k, alpha=alpha, restandardise=restandardise)
            case "grpo":
                result = grpo(rewards_B)
            case "entropic":
                result = entropic(rewards_B)
            case "maxk":
                result = maxk(rewards_B, k)
            case _:
                raise ValueError(f"unknown objective {name!r}: pace, grpo, entropic, maxk")
    return result if isinstance(result, Collapsed) else [float(value) for value in result]
