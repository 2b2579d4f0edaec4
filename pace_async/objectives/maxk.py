"""Best-of-k frontier contribution: the SLOO_{k-1} weights of PKPO (paper, section 3.3), in O(B log B).

w_i = 1/C(B,k) * sum over size-k subsets I that contain i of (max over I - max over I without i). A term is non-zero
only where i wins its subset. With rewards in ascending order, g_1 <= ... <= g_B, reward i wins the subsets whose other
k-1 members lie below it, and the runner-up is the highest of those:

    w_i = 1/C(B,k) * sum_{j<i} C(j-1, k-2) * (g_i - g_j)

The weights are raw, not standardised, as the plain Max@k baseline uses them. For k = 1 nothing remains when i is
removed, the runner-up counts as 0 and w_i = g_i / B. Among equal rewards the margin is 0 whichever wins. The skip rule
holds for ties too, because an optimizer that divides by the gradient's size would take a full step from rounding
errors.
"""

from math import comb

import numpy as np

from pace_async.objectives.base import Collapsed, Parameters, Vector, has_signal


def maxk(rewards_B: Vector, parameters: Parameters) -> Vector | Collapsed:
    """The raw weights as advantages, or Collapsed if all are equal."""
    weights_B = sloo(rewards_B, parameters.k)
    return weights_B if has_signal(weights_B) else Collapsed("frontier")


def sloo(rewards_B: Vector, k: int) -> Vector:
    """Raw SLOO_{k-1} weights, one for each reward, in the order given."""
    size = rewards_B.size
    if k == 1:
        return rewards_B / size
    order = np.argsort(rewards_B, kind="stable")
    sorted_B = rewards_B[order] - rewards_B.min()
    counts_B = np.array([comb(below, k - 2) for below in range(size)], dtype=np.float64) / comb(size, k)
    wins_B = np.concatenate(([0.0], np.cumsum(counts_B)[:-1]))
    runner_up_B = np.concatenate(([0.0], np.cumsum(counts_B * sorted_B)[:-1]))
    weights_B = np.empty_like(sorted_B)
    weights_B[order] = np.maximum(0.0, wins_B * sorted_B - runner_up_B)
    return weights_B
