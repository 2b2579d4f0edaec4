"""VESPO's weight: a smooth bound on the ratio of a whole call, in place of a clip.

With w the product of the ratios of a call's tokens to the policy that sampled them, every token of the call has the
weight

    phi(w) = w^k * exp(lambda * (1 - w))

which is 1 at w = 1, has its maximum e^(lambda - k) * (k / lambda)^k at w = k / lambda, and falls to 0 on both sides: an
answer that the policy now makes much more or much less often says little about it. (k, lambda) is (2, 3) for an
advantage above 0 and (3, 2) for others. So an answer that was bad is forgotten faster once it is rare, and one that was
good sooner once it is frequent. Both maxima lie below 1.25, so no cap applies.

Source: "VESPO: Variational Sequence-Level Soft Policy Optimization" (arXiv 2602.10693), with TRL's constants. Its
sequence is a call here: one prompt, one answer. Numpy only.
"""

import numpy as np

from pace_async.learn.correction import Booleans, Floats

GOOD, BAD = (2.0, 3.0), (3.0, 2.0)
LARGEST = 30.0
"""Log-ratios of a call are cut here: the weight is 0 in floats long before."""


def vespo(log_ratio_BT: Floats, valid_BT: Booleans, advantages_BT: Floats) -> Floats:
    """Log weights, (B, T)."""
    log_w_B1 = np.where(valid_BT, log_ratio_BT, 0.0).sum(axis=1, keepdims=True)
    k_BT, lambda_BT = (np.where(advantages_BT > 0, good, bad) for good, bad in zip(GOOD, BAD, strict=True))
    return k_BT * log_w_B1 + lambda_BT * (1.0 - np.exp(np.minimum(log_w_B1, LARGEST)))
