"""How far the policy in training has moved from the policies that sampled.

Per valid token of a group (suffix N): importance ratio r = π(token) / π_sampled(token). Measures, never changes, the
loss. Numpy only.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """What one step saw of each valid token, in any order. `weights` are the correction's; `truncated` says where its
    cap cut."""

    logprobs_N: Floats
    sampled_N: Floats
    entropies_N: Floats
    advantages_N: Floats
    weights_N: Floats
    truncated_N: npt.NDArray[np.bool_]
    ages_N: npt.NDArray[np.int64]
    rollouts_N: npt.NDArray[np.int64]


def off_policy_metrics(facts: TokenFacts, clip_low: float, clip_high: float, *, clips: bool = True) -> dict[str, float]:
    """Named figures of one step:

    - `entropy`: mean over tokens, nats; `tokens`: their number
    - `mean_ratio`: mean of r; `clip_fraction`: share of tokens whose gradient the clip removed; where it is inert
      (`clips` false: decoupled), share of tokens whose weight the cap cut
    - `k3`: mean of r - 1 - ln r with r over the tokens sampled, an estimate of KL(sampled ‖ trained) that is never
      negative
    - `ess`: effective sample size of the tokens' ratios as a share, (Σr)² / (N Σr²), in (0, 1]
    - `ess_rollouts`: the same over rollouts, each weighted by the geometric mean of its tokens' ratios
    - `mean_weight`: mean weight of the correction; `truncated_fraction`: share that its cap cut; `masked_fraction`:
      share whose weight is 0
    - `tokens_age_a`, `ess_age_a`, `k3_age_a`, `clip_fraction_age_a`, `mean_ratio_age_a`: the same over the tokens that
      are a versions old, for each a present

    A figure that overflows is inf or NaN."""
    log_ratio_N = facts.logprobs_N - facts.sampled_N
    with np.errstate(all="ignore"):
        ratio_N = np.exp(log_ratio_N)
        k3_N = ratio_N - 1.0 - log_ratio_N
        clipped_N = facts.truncated_N
        if clips:
            clipped_N = ((ratio_N < 1 - clip_low) & (facts.advantages_N < 0)) | (
                (ratio_N > 1 + clip_high) & (facts.advantages_N > 0)
            )
        places = np.unique(facts.rollouts_N)
        of_rollouts = np.array([log_ratio_N[facts.rollouts_N == place].mean() for place in places])
        metrics = {
            "tokens": float(len(ratio_N)),
            "entropy": float(facts.entropies_N.mean()),
            "mean_ratio": float(ratio_N.mean()),
            "clip_fraction": float(clipped_N.mean()),
            "k3": float(k3_N.mean()),
            "ess": effective_share(log_ratio_N),
            "ess_rollouts": effective_share(of_rollouts),
            "mean_weight": float(facts.weights_N.mean()),
            "truncated_fraction": float(facts.truncated_N.mean()),
            "masked_fraction": float((facts.weights_N == 0).mean()),
        }
        for age in np.unique(facts.ages_N):
            of_age = facts.ages_N == age
            metrics[f"tokens_age_{age}"] = float(of_age.sum())
            metrics[f"ess_age_{age}"] = effective_share(log_ratio_N[of_age])
            metrics[f"k3_age_{age}"] = float(k3_N[of_age].mean())
            metrics[f"clip_fraction_age_{age}"] = float(clipped_N[of_age].mean())
            metrics[f"mean_ratio_age_{age}"] = float(ratio_N[of_age].mean())
    return metrics


def effective_share(log_weights: Floats) -> float:
    """Effective sample size of weights as a share of their number, (Σw)² / (N Σw²)."""
    weights = np.exp(log_weights - log_weights.max())  # the largest is 1: a share does not depend on the scale
    return float(weights.sum() ** 2 / (len(weights) * (weights**2).sum()))
