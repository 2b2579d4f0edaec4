"""How far what is served lies from the learner's own weights, on tokens that the server sampled.

k3 is the mean of r - 1 - ln r with r = learner / server over those tokens: an estimate of KL(server ‖ learner) that is
never negative. Two implementations of the same weights in bfloat16 are 1e-3 to 2e-3 apart, other weights 2e-2 and more.
It sees gross error only: one learning step moves it by about 1e-7, so it stands beside the receipt, not in its place.
"""

from collections.abc import Sequence
from math import exp, inf

TEXT = "Propose three hypotheses, and say of each why it may improve the program."
"""What is asked; the server's own answer to it is what is compared."""

TOKENS = 64
"""Of the answer, past its end too: where a model is certain of a token every k3 is 0, and one that was trained on
nothing like the question may be certain of ending at once."""

SEED = 20


def k3_of(served: Sequence[float], learned: Sequence[float]) -> float:
    """k3 of the same tokens' log-probabilities, in nats; infinite or NaN where they are, or where it overflows."""
    if not served or len(served) != len(learned):
        raise ValueError(f"{len(served)} log-probabilities cannot be compared with {len(learned)}")
    total = 0.0
    for one, other in zip(served, learned, strict=True):
        ratio = other - one
        total += exp(ratio) - 1.0 - ratio if ratio < 700 else inf
    return total / len(served)
