"""The paper's objective: group-relative credit early, frontier contribution late (section 3.3, eq. "hybrid").

A = (1 - alpha) * Phi(R - mean R) + alpha * Phi(SLOO_{k-1}), and Phi(R - mean R) = Phi(R). Each branch is standardised
separately, and the mixture is not (the authors' code standardises it once more: `restandardise`). A branch that has
collapsed is never normalised, because it is noise. If its weight is not zero, there is no update (the paper), or the
other branch has the whole weight (`other_branch`): then A = Phi(R) where the frontier has collapsed. In a group with a
few failures among equal rewards only the frontier collapses. No KL term.
"""

import numpy as np

from pace_async.objectives.base import Collapsed, Parameters, Vector, standardise
from pace_async.objectives.maxk import sloo


def phase_adaptive(rewards_B: Vector, parameters: Parameters) -> Vector | Collapsed:
    """alpha in [0, 1]. At alpha = 0 the result equals that of `grpo`."""
    alpha = parameters.alpha
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"alpha must lie in [0, 1], not {alpha}")
    group_B, frontier_B = standardise(rewards_B, "group"), standardise(sloo(rewards_B, parameters.k), "frontier")
    branches = [(1.0 - alpha, group_B), (alpha, frontier_B)]
    collapsed = [branch for weight, branch in branches if weight and isinstance(branch, Collapsed)]
    if collapsed:
        left = [(1.0, branch) for _, branch in branches if not isinstance(branch, Collapsed)]
        if not (parameters.other_branch and left):
            return collapsed[0]
        branches = left
    mixed_B = np.zeros_like(rewards_B)
    for weight, branch in branches:
        if weight and not isinstance(branch, Collapsed):
            mixed_B += weight * branch
    return standardise(mixed_B, "mixture") if parameters.restandardise else mixed_B
