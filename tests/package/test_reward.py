"""Reward from score, as in the paper."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.aims import Aim, weights_of
from pace_async.configure import resolve
from pace_async.errors import UsageError
from pace_async.fitness import fitness_of
from pace_async.reward import RewardRule
from tests.support.fitness import UP


@pytest.mark.parametrize(
    ("direction", "score", "wanted"),
    [
        ("maximize", 2.5, 2.5),
        ("maximize", 9.0, 5.0),
        ("maximize", 0.0, 0.0),
        ("minimize", 2.2, 4.0),
        ("minimize", 9.0, 0.0),
    ],
)
def test_progress_is_clamped_and_knows_the_direction(direction: str, score: float, wanted: float) -> None:
    assert RewardRule(fitness_of(direction, 2.0, 3.0)).of_score(score, parent=0.0, seed=0.0) == pytest.approx(wanted)


@pytest.mark.parametrize("score", [None, math.nan, math.inf, -math.inf])
def test_a_missing_or_non_finite_score_is_a_failure(score: float | None) -> None:
    assert RewardRule(UP).of_score(score, parent=0.0, seed=0.0) == -1.0


@given(score=st.floats(allow_nan=False, allow_infinity=False), exponent=st.floats(0.2, 3))
def test_reward_of_a_score_stays_in_its_range(score: float, exponent: float) -> None:
    assert 0.0 <= RewardRule(UP, exponent=exponent).of_score(score, parent=0.0, seed=0.0) <= 5.0


@pytest.mark.parametrize(
    ("direction", "score", "parent", "wanted"),
    [
        ("maximize", 2.6, 2.5, 0.5),
        ("maximize", 2.5, 2.5, 0.0),
        ("maximize", 2.499, 2.5, -0.005),
        ("maximize", 2.0, 2.9, -0.1),
        ("minimize", 2.4, 2.5, 0.5),
        ("minimize", 2.6, 2.5, -0.1),
        ("maximize", 9.0, 2.9, 0.5),
        ("maximize", 1.5, 1.0, 0.0),
    ],
)
def test_a_reward_relative_to_the_parent_is_the_gain_cut_at_the_floor(
    direction: str, score: float, parent: float, wanted: float
) -> None:
    rule = RewardRule(fitness_of(direction, 2.0, 3.0), relative_to="parent")
    assert rule.of_score(score, parent=parent, seed=0.0) == pytest.approx(wanted)
    assert rule.stopped == -0.1


@pytest.mark.parametrize(
    ("direction", "score", "seed", "wanted"),
    [
        ("maximize", 2.75, 2.5, 2.5),
        ("maximize", 2.5, 2.5, 0.0),
        ("maximize", 2.2, 2.5, 0.0),
        ("maximize", 2.75, 1.0, 3.75),
        ("minimize", 2.25, 2.5, 2.5),
        ("minimize", 2.8, 2.5, 0.0),
        ("maximize", 3.5, 3.2, 0.0),
    ],
)
def test_a_reward_relative_to_the_seed_program_is_0_below_it(
    direction: str, score: float, seed: float, wanted: float
) -> None:
    rule = RewardRule(fitness_of(direction, 2.0, 3.0), relative_to="seed")
    assert rule.of_score(score, parent=0.0, seed=seed) == pytest.approx(wanted)
    assert rule.stopped == 0.0


numbers = st.floats(-1e3, 1e3)


@given(
    scores=st.tuples(numbers, numbers, numbers),
    direction=st.sampled_from(["maximize", "minimize"]),
    relative_to=st.sampled_from(["bounds", "seed", "parent"]),
    exponent=st.floats(0.3, 4),
)
def test_every_rule_ranks_scores_alike_and_no_score_earns_as_little_as_a_failure(
    scores: tuple[float, float, float], direction: str, relative_to: str, exponent: float
) -> None:
    score, parent, seed = scores
    fitness = fitness_of(direction, -500.0, 500.0)
    rule = RewardRule(fitness, exponent=exponent, relative_to=relative_to)
    found = rule.of_score(score, parent=parent, seed=seed)
    assert -1.0 < rule.stopped <= found <= 5.0
    assert rule.of_score(None, parent=parent, seed=seed) == rule.of_score(math.nan, parent=parent, seed=seed) == -1.0
    worse = score - fitness.merit(1.0)
    assert rule.of_score(worse, parent=parent, seed=seed) <= found
    if relative_to == "bounds":
        assert found == 5.0 * fitness.progress(score) ** exponent


def test_a_floor_as_low_as_a_failure_is_refused() -> None:
    assert resolve(None, {"reward.relative_to": "parent", "reward.floor": 0.1}, {}).reward.floor == 0.1
    with pytest.raises(UsageError, match=r"reward\.floor 0\.2 times reward\.scale 5 must be below 1"):
        resolve(None, {"reward.relative_to": "parent", "reward.floor": 0.2}, {})


def test_with_several_objectives_a_lease_rewards_its_own_weights() -> None:
    rule = RewardRule(fitness_of("maximize", 0.0, 1.0, (Aim("a", False, 0.0, 1.0), Aim("b", False, 0.0, 1.0))))
    fast, good = (0.0, 0.0, 1.0), (0.0, 1.0, 0.0)
    leases = range(1, 41)
    first = {lease for lease in leases if weights_of(lease, 2)[0] > 0.5}
    assert 15 <= len(first) <= 25
    for lease in leases:
        rewards = [rule.of_costs(costs, parent=fast, seed=good, lease=lease) for costs in (fast, good)]
        assert (rewards[0] >= rewards[1]) == (lease in first or rewards[0] == rewards[1])
        assert rule.of_costs((), parent=fast, seed=good, lease=lease) == -1.0
        assert rule.of_costs((0.3, 0.0, 0.0), parent=fast, seed=good, lease=lease) == 0.0


@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_weights_of_leases_are_shares_that_cover_every_objective(count: int) -> None:
    drawn = [weights_of(lease, count) for lease in range(1, 201)]
    assert all(sum(one) == pytest.approx(1.0, abs=0.05) and min(one) >= 0.01 for one in drawn)
    for axis in range(count):
        assert sum(one[axis] for one in drawn) / len(drawn) == pytest.approx(1 / count, abs=0.02)
        assert max(one[axis] for one in drawn) > 0.6
