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
        weights_N=np.minimum(1.0, 1.5 / np.array(ratios)),
        truncated_N=np.array(ratios) > 1.5,
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
    assert [metrics[f"tokens_age_{age}"] for age in (0, 2)] == [1, 2]
    assert metrics["ess_age_2"] == pytest.approx(1.5**2 / (2 * 1.25))
    assert [metrics[f"clip_fraction_age_{age}"] for age in (0, 2)] == [1, 0]
    assert metrics["mean_weight"] == pytest.approx((0.75 + 1 + 1) / 3)
    assert metrics["truncated_fraction"] == pytest.approx(1 / 3)
    assert metrics["masked_fraction"] == 0


def test_with_an_inert_clip_truncated_tokens_count_as_clipped() -> None:
    inert = off_policy_metrics(facts([2.0, 1.3], [1, 1], [0, 1], [0, 0]), 0.2, 0.28, clips=False)
    assert (inert["clip_fraction"], inert["clip_fraction_age_0"], inert["clip_fraction_age_1"]) == (0.5, 1, 0)


@pytest.mark.fault("Replay and learner", "log-ratios of a thousand")
@pytest.mark.parametrize("gap", [1000.0, -1000.0])
def test_log_ratios_of_a_thousand_leave_shares_finite(gap: float) -> None:
    extreme = facts([1.0, 1.0], [1, -1], [0, 0], [0, 1])
    extreme.logprobs_N[0] += gap
    metrics = off_policy_metrics(extreme, 0.2, 0.28)
    assert metrics["ess"] == metrics["ess_rollouts"] == metrics["ess_age_0"] == pytest.approx(0.5)
