"""Standardised ranks of the rewards: insensitive to how far the best is ahead. Ties share their mean rank."""

import numpy as np

from pace_async.objectives.base import Collapsed, Parameters, Vector, standardise


def rank(rewards_B: Vector, parameters: Parameters) -> Vector | Collapsed:
    """Phi of the ranks 0 to B - 1. Collapsed where all rewards are equal."""
    below_B = (rewards_B[:, None] > rewards_B).sum(axis=1)
    equal_B = (rewards_B[:, None] == rewards_B).sum(axis=1)
    return standardise((below_B + (equal_B - 1) / 2).astype(np.float64), "rank")
