"""The paper's objective: group-relative credit early, frontier contribution late (section 3.3, eq. "hybrid").

A = (1 - alpha) * Phi(R - mean R) + alpha * Phi(SLOO_{k-1}), and Phi(R - mean R) = Phi(R). Each branch is standardised
separately, and the mixture is not (the authors' code standardises it once more: `restandardise`). If a branch
of non-zero weight has collapsed, there is no update, so that noise is not normalised. No KL term.
"""

import numpy as np

from pace_async.objectives.base import Collapsed, Parameters, Vector, standardise
from pace_async.objectives.maxk import sloo


def phase_adaptive(rewards_B: Vector, parameters: Parameters) -> Vector | Collapsed:
    """alpha in [0, 1]. At alpha = 0 the result equals that of `grpo`."""
    alpha = parameters.alpha
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"alpha must lie in [0, 1], not {alpha}")
    mixed_B = np.zeros_like(rewards_B)
    branches = ((1.0 - alpha, "group", rewards_B), (alpha, "frontier", sloo(rewards_B, parameters.k)))
    for weight, name, branch_B in branches:
        if weight == 0.0:
            continue
        standard_B = standardise(branch_B, name)
        if isinstance(standard_B, Collapsed):
            return standard_B
        mixed_B += weight * standard_B
    return standardise(mixed_B, "mixture") if parameters.restandardise else mixed_B
