"""Probe: distance between the served policy and the learner's own weights, on tokens that the server sampled.

k3 is the mean of r - 1 - ln r with r = learner / server over those tokens. It estimates KL(server ‖ learner) and is
never negative. Two implementations of the same weights in bfloat16 are 1e-3 to 2e-3 apart, other weights 2e-2 and more.
The probe detects gross error only, because one learning step moves k3 by about 1e-7. It complements the receipt and
does not replace it.
"""

from collections.abc import Sequence
from math import exp, inf

TEXT = "Propose three hypotheses, and say of each why it may improve the program."
"""The prompt. The server's own answer to it is compared."""

TOKENS = 64
"""Tokens of the answer, sampled past its end. On a token of which a model is certain, k3 is always 0, and a model that
was never trained on such prompts may be certain to end at once."""

SEED = 20
TRIES = 2
"""Samples of which one must be within the limit. Wrong weights fail all of them."""


def k3_of(served: Sequence[float], learned: Sequence[float]) -> float:
    """k3 from log-probabilities in nats of the same tokens. Infinite or NaN if one of them is, or on overflow."""
    if not served or len(served) != len(learned):
        raise ValueError(f"{len(served)} log-probabilities cannot be compared with {len(learned)}")
    total = 0.0
    for one, other in zip(served, learned, strict=True):
        ratio = other - one
        total += exp(ratio) - 1.0 - ratio if ratio < 700 else inf
    return total / len(served)
