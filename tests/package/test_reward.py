"""Reward from score, as in the paper."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.reward import reward


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
    assert reward(score, direction=direction, lower=2.0, upper=3.0) == pytest.approx(wanted)


@pytest.mark.parametrize("score", [None, math.nan, math.inf, -math.inf])
def test_a_missing_or_non_finite_score_is_a_failure(score: float | None) -> None:
    assert reward(score, direction="maximize", lower=2.0, upper=3.0) == -1.0


@given(score=st.floats(allow_nan=False, allow_infinity=False), exponent=st.floats(0.2, 3))
def test_reward_of_a_score_stays_in_its_range(score: float, exponent: float) -> None:
    assert 0.0 <= reward(score, direction="maximize", lower=2.0, upper=3.0, exponent=exponent) <= 5.0
