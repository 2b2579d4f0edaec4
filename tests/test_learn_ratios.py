"""The figures of a step, against sums written out by hand."""

import math

import numpy as np
import pytest

from pace_async.learn.ratios import TokenFacts, off_policy_metrics


def facts(ratios: list[float], advantages: list[float], ages: list[int], rollouts: list[int]) -> TokenFacts:
    sampled = np.full(len(ratios), -2.0)
    return TokenFacts(
        logprobs_N=sampled + np.log(ratios),
        sampled_N=sampled,
        entropies_N=np.arange(len(ratios), dtype=float),
        advantages_N=np.array(advantages),
        ages_N=np.array(ages),
        rollouts_N=np.array(rollouts),
    )


def test_on_policy_tokens_have_ratio_1_full_sample_size_and_no_divergence() -> None:
    metrics = off_policy_metrics(facts([1, 1, 1], [1, -1, 1], [0, 0, 0], [0, 0, 1]), 0.2, 0.28)
    assert metrics["mean_ratio"] == metrics["ess"] == metrics["ess_rollouts"] == pytest.approx(1)
    assert metrics["k3"] == pytest.approx(0)
    assert metrics["clip_fraction"] == 0
    assert metrics["entropy"] == 1
    assert metrics["tokens"] == 3


def test_a_token_counts_as_clipped_only_where_the_clip_removes_its_gradient() -> None:
    ratios = [1.3, 1.3, 0.7, 0.7, 1.27, 0.81]
    metrics = off_policy_metrics(facts(ratios, [1, -1, 1, -1, 1, -1], [0] * 6, [0] * 6), 0.2, 0.28)
    assert metrics["clip_fraction"] == pytest.approx(2 / 6)


def test_divergence_and_sample_size_are_those_of_their_formulas_also_by_age() -> None:
    metrics = off_policy_metrics(facts([2.0, 0.5, 1.0], [1, 1, 1], [0, 2, 2], [0, 0, 1]), 0.2, 0.28)
    k3 = [2 - 1 - math.log(2), 0.5 - 1 + math.log(2), 0.0]
    assert metrics["k3"] == pytest.approx(sum(k3) / 3)
    assert metrics["k3_age_0"] == pytest.approx(k3[0])
    assert metrics["k3_age_2"] == pytest.approx((k3[1] + k3[2]) / 2)
    assert metrics["mean_ratio_age_2"] == pytest.approx(0.75)
    assert metrics["ess"] == pytest.approx(3.5**2 / (3 * (4 + 0.25 + 1)))
    assert metrics["ess_rollouts"] == pytest.approx(1)  # 2 and 1/2 cancel in the geometric mean
    assert "k3_age_1" not in metrics
