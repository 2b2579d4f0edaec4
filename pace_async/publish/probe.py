"""Probe: distance between the served policy and the learner's own weights, on tokens that the server sampled.

k3 is the mean of r - 1 - ln r with r = learner / server over those tokens. It estimates KL(server ‖ learner) and is
never negative. Two implementations of the same weights in bfloat16 are 1e-3 to 2e-3 apart, other weights 2e-2 and more.
The probe detects gross error only, because one learning step moves k3 by about 1e-7. It complements the receipt and
does not replace it.

How far apart two implementations are depends on their number types and kernels. So the limit is measured once, at the
first push of which every tensor was proven, and is a multiple of what was found.
"""

from collections.abc import Sequence
from math import exp, inf
from statistics import median

TEXT = "Propose three hypotheses, and say of each why it may improve the program."
"""The prompt. The server's own answer to it is compared."""

TEXTS = (TEXT, "Which of these changes makes the result worse, and how would one see it?", "1. 0.5 2. 0.25 3.")
"""The prompts on which the limit is measured."""

LEAST, GROSS, ABOVE = 1e-3, 1e-2, 4.0
"""The limit is `ABOVE` times the largest k3 that was measured, at least `LEAST` and at most `GROSS`. Other weights are
beyond `GROSS`, so a first push whose samples are there has failed."""

TOKENS = 64
"""Tokens of the answer, sampled past its end. On a token of which a model is certain, k3 is always 0, and a model that
was never trained on such prompts may be certain to end at once."""

SEED = 20
TRIES = 2
"""Samples of which one must be within the limit. Wrong weights fail all of them."""


def limit_of(measurements: Sequence[float]) -> float | None:
    """The limit, from k3 of samples of proven weights. None if at least half of them are gross."""
    if not median(measurements) <= GROSS:
        return None
    return min(GROSS, max(LEAST, ABOVE * max(measurements)))


def k3_of(served: Sequence[float], learned: Sequence[float]) -> float:
    """k3 from log-probabilities in nats of the same tokens. Infinite or NaN if one of them is, or on overflow."""
    if not served or len(served) != len(learned):
        raise ValueError(f"{len(served)} log-probabilities cannot be compared with {len(learned)}")
    total = 0.0
    for one, other in zip(served, learned, strict=True):
        ratio = other - one
        total += exp(ratio) - 1.0 - ratio if ratio < 700 else inf
    return total / len(served)
