"""TTT-Discover's entropic advantage: exponential weights, leave-one-out, with a temperature set by divergence.

beta solves KL(q_beta || uniform) = GAMMA for q_beta(i) ~ exp(beta * R_i); the advantage is
exp(beta (R_i - R_max)) / (Z_{-i} + eps) - 1. There is no root when more than half of the rewards tie at the top: then
beta is BETA_MAX. The KL penalty of that paper's row is not part of the advantage.
"""

import numpy as np

from pace_async.objectives.base import EPS_NUM, EPS_SKIP, Collapsed, Vector

GAMMA = float(np.log(2.0))
BETA_MAX = 1000.0


def entropic(rewards_B: Vector) -> Vector | Collapsed:
    """Advantages, one for each reward."""
    size = rewards_B.size
    if size < 2 or float(rewards_B.std()) < EPS_SKIP:
        return Collapsed("entropic")
    gaps_B = rewards_B - rewards_B.max()
    weights_B = np.exp(_beta(gaps_B) * gaps_B)
    others_B = (weights_B.sum() - weights_B) / (size - 1)
    return weights_B / (others_B + EPS_NUM) - 1.0


def _beta(gaps_B: Vector) -> float:
    if _divergence(BETA_MAX, gaps_B) <= GAMMA:
        return BETA_MAX
    low, high = 0.0, BETA_MAX
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _divergence(middle, gaps_B) < GAMMA else (low, middle)
    return (low + high) / 2


def _divergence(beta: float, gaps_B: Vector) -> float:
    weights_B = np.exp(beta * gaps_B)
    q_B = weights_B / weights_B.sum()
    positive_B = q_B[q_B > 0]
    return float((positive_B * np.log(positive_B * gaps_B.size)).sum())
