"""The weight of the frontier branch: the schedules, and what `compression` measures."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.objectives import Spreads, alpha_at
from pace_async.objectives.schedule import WINDOW, spread_of

group = st.lists(st.one_of(st.just(-1.0), st.floats(0, 5)), min_size=1, max_size=8)
history = st.lists(group, max_size=40)


def after(groups: list[list[float]]) -> Spreads:
    spreads = Spreads()
    for rewards in groups:
        spreads = spreads.after(rewards)
    return spreads


def test_linear_grows_from_0_to_1_over_the_horizon_and_stays() -> None:
    alphas = [alpha_at("linear", groups, 4, spreads=Spreads()) for groups in range(6)]
    assert alphas == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]


@pytest.mark.parametrize("start", [0.0, 0.5])
def test_code_grows_to_four_fifths_by_the_horizon_and_stays(start: float) -> None:
    alphas = [alpha_at("code", groups, 200, start=start, spreads=Spreads()) for groups in (0, 100, 200, 5000)]
    assert alphas == pytest.approx([start, (start + 0.8) / 2, 0.8, 0.8])


def test_the_controls_stay_where_they_start_or_fall_from_1_to_0() -> None:
    for groups in (0, 2, 4, 9):
        assert alpha_at("fixed", groups, 4, start=0.5, spreads=Spreads()) == 0.5
        rising, falling = (alpha_at(name, groups, 4, start=0.5, spreads=Spreads()) for name in ("linear", "reversed"))
        assert rising + falling == 1.0


@given(groups=history)
@settings(max_examples=200, deadline=None)
def test_compression_lies_between_0_and_1_and_needs_a_bounded_memory(groups: list[list[float]]) -> None:
    spreads = after(groups)
    assert 0.0 <= alpha_at("compression", len(groups), 10, spreads=spreads) <= 1.0
    assert len(spreads.early) <= WINDOW
    assert len(spreads.recent) <= WINDOW
    measured = [spread for spread in map(spread_of, groups) if spread is not None]
    assert spreads == Spreads(tuple(measured[:WINDOW]), tuple(measured[-WINDOW:]))
    if len(measured) <= WINDOW:
        assert spreads.compression == 0.0


@given(groups=st.lists(st.lists(st.floats(0, 5), min_size=2, max_size=8), min_size=1, max_size=12), data=st.data())
@settings(max_examples=200, deadline=None)
def test_the_tighter_the_recent_groups_the_larger_alpha(groups: list[list[float]], data: st.DataObject) -> None:
    early = [[0.0, 1.0, 2.0]] * WINDOW
    loose, tight = sorted(data.draw(st.tuples(st.floats(0, 1), st.floats(0, 1))), reverse=True)

    def alpha(delta: float) -> float:
        return after([*early, *[[2.0 + delta * value for value in rewards] for rewards in groups]]).compression

    assert alpha(tight) >= alpha(loose) - 1e-9


@pytest.mark.parametrize("delta", [1.0, 0.5, 0.1, 1e-3, 0.0])
def test_groups_compressed_by_delta_give_one_minus_delta(delta: float) -> None:
    rng = np.random.default_rng(1)
    early = [rng.uniform(0, 5, 8).tolist() for _ in range(WINDOW)]
    late = [[1.0 + delta * value for value in rewards] for rewards in early]
    assert after(early + late).compression == pytest.approx(1 - delta, abs=1e-9)


@given(groups=st.lists(st.lists(st.floats(0, 5), min_size=2, max_size=8), min_size=9, max_size=30))
@settings(max_examples=100, deadline=None)
def test_the_scale_and_offset_of_rewards_do_not_matter(groups: list[list[float]]) -> None:
    moved = [[100.0 + 20.0 * value for value in rewards] for rewards in groups]
    spreads = after(groups)
    if min((*spreads.early, 1.0)) > 1e-3:
        assert after(moved).compression == pytest.approx(spreads.compression, abs=1e-6)


def test_failures_are_not_measured_and_a_search_that_spreads_again_goes_back() -> None:
    early = [[0.0, 2.0, -1.0]] * WINDOW
    tight = [[1.0, 1.02, -1.0, -1.0]] * WINDOW
    assert after(early + tight).compression == pytest.approx(0.99)
    assert after(early + tight + [[-1.0] * 8, [-1.0, 3.0]] * 20).compression == pytest.approx(0.99)
    assert after(early + tight + early).compression == 0.0
    assert after([[1.0, 1.0]] * WINDOW + early).compression == 0.0
