"""How far the trained policy has moved from the policies that sampled.

Each valid token of a group (suffix N) has the importance ratio r = π(token) / π_sampled(token). The metrics
never change the loss. Numpy only.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """Measurements of each valid token of one step, in any order. `weights_N` are the correction's weights, and
    `truncated_N` is true where its cap truncated one."""

    logprobs_N: Floats
    sampled_N: Floats
    entropies_N: Floats
    advantages_N: Floats
    weights_N: Floats
    truncated_N: npt.NDArray[np.bool_]
    ages_N: npt.NDArray[np.int64]
    rollouts_N: npt.NDArray[np.int64]


def off_policy_metrics(facts: TokenFacts, clip_low: float, clip_high: float, *, clips: bool = True) -> dict[str, float]:
    """Metrics of one step, by name:

    - `tokens`: number of tokens
    - `entropy`: mean over tokens, in nats
    - `mean_ratio`: mean of r
    - `clip_fraction`: share of tokens whose gradient the clip removed. If the clip is inert (`clips` false: decoupled),
      share of tokens whose weight the cap truncated
    - `k3`: mean of r - 1 - ln r over the sampled tokens, a non-negative estimate of KL(sampled ‖ trained)
    - `ess`: effective sample size of the tokens' ratios as a share, (Σr)² / (N Σr²), in (0, 1]
    - `ess_rollouts`: the same over rollouts, each weighted by the geometric mean of its tokens' ratios
    - `mean_weight`: mean weight of the correction
    - `truncated_fraction`: share of tokens that its cap truncated
    - `masked_fraction`: share of tokens with weight 0
    - `tokens_age_a`, `ess_age_a`, `k3_age_a`, `clip_fraction_age_a`, `mean_ratio_age_a`: the same over the tokens of
      age a in versions, for each age that occurs

    A metric that overflows is inf or NaN."""
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
    weights = np.exp(log_weights - log_weights.max())  # scales the largest to 1; the share does not depend on scale
    return float(weights.sum() ** 2 / (len(weights) * (weights**2).sum()))
