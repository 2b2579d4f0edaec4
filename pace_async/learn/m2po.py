"""M2PO's mask: the tokens of a group that moved farthest are left out until the rest is near the sampling policy.

The second moment of a group is the mean of (ln r)^2 over its tokens, r the ratio to the policy that sampled. Tokens are
left out from the largest |ln r| on until the second moment of the rest is at most the limit. So a group of old tokens
loses its few outliers, where a clip at fixed bounds would lose many. The tokens that are kept have the weight of
`decoupled`. With `learner.cap` null it is r itself, as in the paper.

Invariant: the choice is made over the whole group, so it does not depend on the cut into micro-batches, and tokens of
equal |ln r| are kept or left out together. The mean over the tokens that are kept never exceeds the limit.
Source: "Prosperity before Collapse" (arXiv 2510.01161). Numpy only.
"""

import numpy as np

from pace_async.learn.correction import Booleans, Floats


def m2po(log_ratio_N: Floats, limit: float) -> Booleans:
    """Which tokens of a group are kept, from their finite log-ratios. `limit` is the highest second moment."""
    squares_N = log_ratio_N**2
    sorted_N = np.sort(squares_N)
    within = int((np.cumsum(sorted_N) <= limit * np.arange(1, len(sorted_N) + 1)).sum())
    return squares_N < (sorted_N[within] if within < len(sorted_N) else np.inf)
