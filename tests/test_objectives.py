"""Every objective against the paper's formula computed the slow way, and the theorem's statements as properties."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.objectives import Collapsed, advantages, alpha_at
from pace_async.objectives.entropic import GAMMA
from pace_async.objectives.maxk import sloo

reward = st.floats(-1, 5, allow_nan=False)
groups = st.lists(reward, min_size=2, max_size=8)


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


def test_entropic_temperature_meets_its_divergence_and_ties_at_the_top_are_finite() -> None:
    rewards = np.array([0.0, 1.0, 2.0, 4.0])
    result = advantages("entropic", list(rewards), k=1, alpha=0.0)
    assert not isinstance(result, Collapsed)
    weights = (np.array(result) + 1) / (np.array(result) + 4)
    q = weights / weights.sum()
    assert float((q * np.log(q * 4)).sum()) == pytest.approx(GAMMA, abs=1e-6)
    tied = advantages("entropic", [1.0, 1.0, 1.0, 0.0], k=1, alpha=0.0)
    assert np.isfinite(tied).all()


@pytest.mark.parametrize(
    ("rewards", "k"), [([1.0, 2.0], 3), ([1.0, 2.0], 0), ([float("nan"), 1.0], 1), ([], 1), ([float("inf")], 1)]
)
def test_bad_input_is_refused(rewards: list[float], k: int) -> None:
    with pytest.raises(ValueError, match=r"k must|finite"):
        advantages("pace", rewards, k=k, alpha=0.0)


def test_alpha_grows_linearly_and_stays_at_one() -> None:
    assert [alpha_at(g, 4) for g in range(6)] == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
