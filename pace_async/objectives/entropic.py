"""TTT-Discover's entropic advantage: exponential weights, leave-one-out, with a temperature set by divergence.

beta solves KL(q_beta || uniform) = GAMMA for q_beta(i) ~ exp(beta * R_i). The advantage is
exp(beta (R_i - R_max)) / (Z_{-i} + eps) - 1. The divergence grows with beta towards ln(B / m), where m rewards tie at
the top. For m >= B / 2 there is no root, and beta is BETA_MAX. A root beyond BETA_MAX is cut there too, so that rewards
closer than a thousandth do not get unbounded advantages. The KL penalty of that paper's row is not part of the
advantage. It is a term of the loss (`learner.kl_penalty`).
"""

import numpy as np

from pace_async.objectives.base import EPS_NUM, Collapsed, Parameters, Vector, has_signal

GAMMA = float(np.log(2.0))
BETA_MAX = 1000.0


def entropic(rewards_B: Vector, parameters: Parameters) -> Vector | Collapsed:
    """Advantages, one for each reward."""
    size = rewards_B.size
    if not has_signal(rewards_B):
        return Collapsed("entropic")
    gaps_B = rewards_B - rewards_B.max()
    weights_B = np.exp(_beta(gaps_B) * gaps_B)
    others_B = (weights_B.sum() - weights_B) / (size - 1)
    return weights_B / (others_B + EPS_NUM) - 1.0


def _beta(gaps_B: Vector) -> float:
    if _divergence(BETA_MAX, gaps_B) <= GAMMA:
        return BETA_MAX
    low, high = 0.0, BETA_MAX
    for _ in range(200):  # to the precision of floats
        middle = (low + high) / 2
        low, high = (middle, high) if _divergence(middle, gaps_B) < GAMMA else (low, middle)
    return (low + high) / 2


def _divergence(beta: float, gaps_B: Vector) -> float:
    weights_B = np.exp(beta * gaps_B)
    q_B = weights_B / weights_B.sum()
    positive_B = q_B[q_B > 0]
    return float((positive_B * np.log(positive_B * gaps_B.size)).sum())
