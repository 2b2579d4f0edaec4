"""Advantages from the rewards of one group: values in, values out, one objective a file.

`advantages(name, ...)` is the only way in. Rewards are a group of B floats. The result is B floats, or a `Collapsed`
that names the branch without signal: such a group is skipped, because normalising it would normalise noise.
The objectives are listed in `registry.objectives`.
"""

from collections.abc import Sequence

import numpy as np

from pace_async.objectives.base import Collapsed, Parameters
from pace_async.objectives.schedule import NO_SPREADS, Spreads, alpha_at
from pace_async.registry.objectives import OBJECTIVES

__all__ = ["NO_SPREADS", "Advantages", "Collapsed", "Spreads", "advantages", "alpha_at"]

Advantages = list[float] | Collapsed


def advantages(
    name: str,
    rewards: Sequence[float],
    *,
    k: int,
    alpha: float,
    restandardise: bool = False,
    collapsed: str = "skip",
) -> Advantages:
    """B advantages for B rewards, all finite. Only `pace` uses `alpha`, `restandardise` and `collapsed`. The last says
    what happens to a group in which one branch has collapsed: `skip` (the paper) or `other_branch`. Raises ValueError
    for a bad k, a reward that is not finite, or an objective that is unknown or trains nothing."""
    objective = OBJECTIVES.named(name)
    if not objective.trains:
        raise ValueError(f"the objective {name} trains nothing and has no advantages")
    rewards_B = np.asarray(rewards, dtype=np.float64)
    if rewards_B.ndim != 1 or rewards_B.size == 0 or not np.isfinite(rewards_B).all():
        raise ValueError("rewards must be a non-empty list of finite numbers")
    if not 1 <= k <= rewards_B.size:
        raise ValueError(f"k must lie between 1 and the number of rewards ({rewards_B.size}), not {k}")
    function = objective.load()
    with np.errstate(over="ignore", invalid="ignore"):  # rewards beyond 1e154: the spread is inf, a collapse
        result = function(rewards_B, Parameters(k, alpha, restandardise, collapsed == "other_branch"))
    return result if isinstance(result, Collapsed) else [float(value) for value in result]
