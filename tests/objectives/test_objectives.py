"""Every objective against the paper's formula computed the slow way, and the theorem's statements as properties."""

import math
from itertools import combinations
from math import comb
from random import Random
from typing import Any, cast

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.objectives import Advantages, Collapsed, advantages
from pace_async.objectives.entropic import BETA_MAX, GAMMA
from pace_async.objectives.maxk import sloo
from pace_async.registry.objectives import OBJECTIVES, trains

ALL = [name for name in OBJECTIVES if trains(name)]

reward = st.floats(-1, 5, allow_nan=False)
ties = st.sampled_from([-1.0, 0.0, 1.0, 2.5, 5.0])
groups = st.one_of(st.lists(reward, min_size=2, max_size=8), st.lists(ties, min_size=2, max_size=8))


def slow_sloo(rewards: list[float], k: int) -> list[float]:
    result = [0.0] * len(rewards)
    for subset in combinations(range(len(rewards)), k):
        for i in subset:
            rest = [rewards[j] for j in subset if j != i]
            result[i] += max(rewards[j] for j in subset) - (max(rest) if rest else 0.0)
    return [value / comb(len(rewards), k) for value in result]


@given(rewards=groups, data=st.data())
@settings(max_examples=300, deadline=None)
def test_frontier_weights_equal_the_subset_sum(rewards: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(rewards)))
    assert sloo(np.array(rewards), k) == pytest.approx(slow_sloo(rewards, k), abs=1e-9)


@given(rewards=groups, data=st.data())
@settings(max_examples=200, deadline=None)
def test_maxk_is_the_subset_sum_as_it_is_or_a_skip(rewards: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(rewards)))
    wanted = np.array(slow_sloo(rewards, k))
    result = advantages("maxk", rewards, k=k, alpha=0.5)
    if isinstance(result, Collapsed):
        assert wanted.std() < 1e-6 + 1e-9
        return
    assert result == pytest.approx(wanted, abs=1e-9)


@given(rewards=groups, alpha=st.floats(0, 1), data=st.data())
@settings(max_examples=300, deadline=None)
def test_the_mixture_is_the_paper_s_formula_or_a_skip(rewards: list[float], alpha: float, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(rewards)))
    values = np.array(rewards)
    group, frontier = values - values.mean(), np.array(slow_sloo(rewards, k))
    sigmas = {"group": group.std() if alpha < 1 else np.inf, "frontier": frontier.std() if alpha > 0 else np.inf}
    if any(abs(sigma - 1e-6) < 1e-9 for sigma in sigmas.values()):
        return
    result = advantages("pace", rewards, k=k, alpha=alpha)
    dead = [name for name, sigma in sigmas.items() if sigma < 1e-6]
    if dead:
        assert result == Collapsed(dead[0])
        return
    parts = [(1 - alpha, group), (alpha, frontier)]
    wanted = sum(w * (b - b.mean()) / (b.std() + 1e-8) for w, b in parts if w > 0)
    assert result == pytest.approx(wanted, abs=1e-5)


@given(rewards=groups)
@settings(max_examples=200, deadline=None)
def test_at_alpha_zero_the_mixture_is_group_relative(rewards: list[float]) -> None:
    assert advantages("pace", rewards, k=2, alpha=0.0) == advantages("grpo", rewards, k=2, alpha=0.0)


@given(
    ranks=st.permutations(list(range(8))),
    offset=st.floats(-10, 10),
    scale=st.sampled_from([1e-3, 1.0, 1e3, 1e6]),
    alpha=st.floats(0, 1),
)
@settings(max_examples=200, deadline=None)
def test_standardised_credit_ignores_the_affine_scale_of_rewards(
    ranks: list[int], offset: float, scale: float, alpha: float
) -> None:
    base = advantages("pace", [float(r) for r in ranks], k=4, alpha=alpha)
    moved = advantages("pace", [offset + scale * r for r in ranks], k=4, alpha=alpha)
    assert not isinstance(base, Collapsed)
    assert moved == pytest.approx(base, abs=1e-4)


@given(rewards=groups, k=st.integers(1, 2))
@settings(max_examples=200, deadline=None)
def test_each_branch_has_squared_norm_at_most_the_group_size(rewards: list[float], k: int) -> None:
    for alpha in (0.0, 1.0):
        result = advantages("pace", rewards, k=k, alpha=alpha)
        if not isinstance(result, Collapsed):
            assert float(np.sum(np.square(result))) <= len(rewards) + 1e-6


@given(ranks=st.permutations(list(range(8))), k=st.integers(2, 8))
def test_the_bottom_k_minus_one_get_no_frontier_credit(ranks: list[int], k: int) -> None:
    weights = sloo(np.array(ranks, dtype=float), k)
    for rank, weight in zip(ranks, weights, strict=True):
        assert (weight == 0.0) == (rank < k - 1)


def test_equal_rewards_collapse_and_integers_are_accepted() -> None:
    assert advantages("pace", [2, 2, 2, 2], k=2, alpha=0.3) == Collapsed("group")
    assert advantages("grpo", [-1, -1], k=1, alpha=0.0) == Collapsed("group")
    assert advantages("pace", [0, 1, 0, 3], k=2, alpha=0.0) == pytest.approx([-0.8165, 0.0, -0.8165, 1.6330], abs=1e-4)


def test_a_collapsed_branch_of_zero_weight_does_not_skip() -> None:
    rewards = [1.0, 2.0, 3.0, 3.0]
    assert not isinstance(advantages("pace", rewards, k=4, alpha=0.0), Collapsed)
    assert advantages("pace", rewards, k=4, alpha=0.5) == Collapsed("frontier")


FAILURES = [0.0] * 6 + [-1.0] * 2


@pytest.mark.parametrize("alpha", [1e-9, 0.5, 1.0])
@pytest.mark.parametrize("restandardise", [False, True])
def test_failures_among_equal_rewards_train_on_the_group_branch_or_are_skipped(
    alpha: float, restandardise: bool
) -> None:
    def under(collapsed: str) -> Advantages:
        return advantages("pace", FAILURES, k=4, alpha=alpha, restandardise=restandardise, collapsed=collapsed)

    assert under("skip") == Collapsed("frontier")
    found = under("other_branch")
    assert found == pytest.approx(advantages("grpo", FAILURES, k=4, alpha=0.0), rel=1e-6)
    assert found == pytest.approx([1 / math.sqrt(3)] * 6 + [-math.sqrt(3)] * 2, rel=1e-6)


@pytest.mark.long
@given(rewards=groups, alpha=st.floats(0, 1), data=st.data())
@settings(max_examples=300, deadline=None)
def test_the_other_branch_is_used_only_where_one_branch_has_collapsed(
    rewards: list[float], alpha: float, data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(rewards)))
    paper = advantages("pace", rewards, k=k, alpha=alpha, collapsed="skip")
    found = advantages("pace", rewards, k=k, alpha=alpha, collapsed="other_branch")
    if not isinstance(paper, Collapsed):
        assert found == paper
        return
    grpo = advantages("grpo", rewards, k=k, alpha=0.0)
    assert found == (paper if isinstance(grpo, Collapsed) else grpo)


def slow_entropic(rewards: list[float]) -> list[float]:
    """The paper's formula, with beta by plain search over a fine grid of exponents, refined."""
    size, top = len(rewards), max(rewards)

    def divergence(beta: float) -> float:
        weights = [math.exp(beta * (reward - top)) for reward in rewards]
        shares = [weight / sum(weights) for weight in weights]
        return sum(share * math.log(share * size) for share in shares if share > 0)

    beta = BETA_MAX
    if 2 * rewards.count(top) < size and divergence(BETA_MAX) > math.log(2):

        def excess(value: float) -> float:
            return divergence(value) - math.log(2)

        beta = float(cast("Any", scipy.optimize).brentq(excess, 0.0, BETA_MAX, xtol=1e-13, rtol=1e-14))
    weights = [math.exp(beta * (reward - top)) for reward in rewards]
    return [
        weight / (sum(weights[:i] + weights[i + 1 :]) / (size - 1) + 1e-8) - 1.0 for i, weight in enumerate(weights)
    ]


@pytest.mark.long
@given(rewards=st.lists(reward, min_size=2, max_size=10))
@settings(max_examples=300, deadline=None)
def test_entropic_advantages_are_the_paper_s_formula(rewards: list[float]) -> None:
    result = advantages("entropic", rewards, k=1, alpha=0.0)
    if isinstance(result, Collapsed):
        assert np.std(rewards) < 1e-6
        return
    assert result == pytest.approx(slow_entropic(rewards), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e3, 1e6])
def test_entropic_temperature_meets_its_divergence_at_any_scale(scale: float) -> None:
    rewards = [0.0, 1.0 * scale, 2.0 * scale, 4.0 * scale]
    result = advantages("entropic", rewards, k=1, alpha=0.0)
    assert not isinstance(result, Collapsed)
    weights = (np.array(result) + 1) / (np.array(result) + 4)
    q = weights / weights.sum()
    assert float((q * np.log(q * 4)).sum()) == pytest.approx(GAMMA, abs=1e-6)
    assert result == pytest.approx(advantages("entropic", [0.0, 1.0, 2.0, 4.0], k=1, alpha=0.0), rel=1e-5)


def test_entropic_takes_its_largest_temperature_where_half_or_more_tie_at_the_top() -> None:
    for tied in ([1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]):
        top = sum(value == 1.0 for value in tied)
        wanted = [1 / ((top - 1) / 3 + 1e-8) - 1 if value == 1.0 else -1.0 for value in tied]
        assert advantages("entropic", tied, k=1, alpha=0.0) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.long
@given(
    ranks=st.permutations(list(range(8))),
    k=st.integers(2, 8),
    offset=st.floats(-5, 5),
    delta=st.sampled_from([1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6]),
)
@settings(max_examples=300, deadline=None)
def test_theorem_1_gives_each_branch_in_closed_form_at_every_compression(
    ranks: list[int], k: int, offset: float, delta: float
) -> None:
    base = np.array(ranks, dtype=float)
    rewards = offset + delta * base
    assert sloo(rewards, k) == pytest.approx(delta * sloo(base, k), rel=1e-6, abs=1e-9 * delta + 1e-14)
    frontier = sloo(base, k)
    for alpha, branch in ((0.0, base), (1.0, frontier)):
        result = advantages("pace", list(rewards), k=k, alpha=alpha)
        if delta * branch.std() < 0.99e-6:
            assert isinstance(result, Collapsed)
        elif delta * branch.std() > 1.01e-6:
            wanted = delta * (branch - branch.mean()) / (delta * branch.std() + 1e-8)
            assert not isinstance(result, Collapsed)
            assert result == pytest.approx(wanted, rel=1e-4, abs=1e-4)  # the offset costs digits where delta is small
            assert float(np.sum(np.square(result))) <= 8 * (1 + 1e-9)
            order = np.argsort(branch, kind="stable")
            assert np.all(np.diff(np.array(result)[order]) >= -1e-6), "the order of credit is kept"


@pytest.mark.long
@given(rewards=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=10), data=st.data())
@settings(max_examples=300, deadline=None)
def test_whatever_the_rewards_advantages_are_finite_or_the_update_is_skipped(
    rewards: list[float], data: st.DataObject
) -> None:
    scale = data.draw(st.sampled_from([1e-12, 1e-6, 1.0, 1e100]))
    k, alpha = data.draw(st.integers(1, len(rewards))), data.draw(st.floats(0, 1))
    for name in ALL:
        result = advantages(name, [scale * value for value in rewards], k=k, alpha=alpha)
        if not isinstance(result, Collapsed):
            assert np.isfinite(result).all()
            assert len(result) == len(rewards)
            assert any(result)


@pytest.mark.long
@given(rewards=groups, order=st.randoms(), name=st.sampled_from(ALL), alpha=st.floats(0, 1))
@settings(max_examples=200, deadline=None)
def test_the_order_of_a_group_does_not_matter_and_equal_rewards_earn_equally(
    rewards: list[float], order: Random, name: str, alpha: float
) -> None:
    first = advantages(name, rewards, k=2, alpha=alpha)
    places = list(range(len(rewards)))
    order.shuffle(places)
    second = advantages(name, [rewards[place] for place in places], k=2, alpha=alpha)
    if isinstance(first, Collapsed) or isinstance(second, Collapsed):
        assert type(first) is type(second) or abs(np.std(rewards) - 1e-6) < 1e-8
        return
    assert second == pytest.approx([first[place] for place in places], rel=1e-5, abs=1e-6)
    for i, one in enumerate(rewards):
        for j, other in enumerate(rewards):
            if one == other:
                assert first[i] == pytest.approx(first[j], rel=1e-6, abs=1e-9)


@pytest.mark.fault("Replay and learner", "all rewards equal")
@pytest.mark.fault("Replay and learner", "a group of one")
@pytest.mark.parametrize(
    ("name", "branch"), [("pace", "group"), ("grpo", "group"), ("entropic", "entropic"), ("maxk", "frontier")]
)
@pytest.mark.parametrize("rewards", [[-1.0] * 8, [3.0] * 8, [0.1], [5.0, 5.0]])
def test_all_equal_all_failed_or_one_reward_is_a_skip_named_by_its_branch(
    name: str, branch: str, rewards: list[float]
) -> None:
    assert advantages(name, rewards, k=1, alpha=0.5) == Collapsed(branch)


@pytest.mark.parametrize("name", ALL)
def test_equal_rewards_are_a_skip_however_large_they_are(name: str) -> None:
    """Three times this number has a mean that is not this number, so sigma is not 0."""
    assert isinstance(advantages(name, [0.181640625e100] * 3, k=1, alpha=0.0), Collapsed)


def test_one_survivor_among_failures_has_all_the_credit_in_every_objective() -> None:
    for name in ALL:
        result = advantages(name, [-1.0] * 7 + [0.5], k=4, alpha=0.5)
        assert not isinstance(result, Collapsed)
        assert result[7] > 0
        assert all(value <= 0 for value in result[:7])
        assert len(set(result[:7])) == 1


@given(rewards=groups, alpha=st.floats(0, 1))
@settings(max_examples=200, deadline=None)
def test_the_restandardised_mixture_has_mean_0_and_sigma_1_in_the_same_order(
    rewards: list[float], alpha: float
) -> None:
    plain = advantages("pace", rewards, k=2, alpha=alpha)
    again = advantages("pace", rewards, k=2, alpha=alpha, restandardise=True)
    if isinstance(plain, Collapsed):
        assert again == plain
    elif isinstance(again, Collapsed):
        assert again.branch == "mixture"
        assert np.std(plain) < 1.1e-6
    else:
        assert np.mean(again) == pytest.approx(0, abs=1e-6)
        assert np.std(again) == pytest.approx(1, abs=1e-2)
        assert np.array(again) * np.std(plain) == pytest.approx(np.array(plain) - np.mean(plain), abs=1e-5)


@pytest.mark.parametrize(
    ("rewards", "k"), [([1.0, 2.0], 3), ([1.0, 2.0], 0), ([float("nan"), 1.0], 1), ([], 1), ([float("inf")], 1)]
)
def test_bad_input_is_refused(rewards: list[float], k: int) -> None:
    with pytest.raises(ValueError, match=r"k must|finite"):
        advantages("pace", rewards, k=k, alpha=0.0)
