"""Spikes, quarters and places, by values computed by hand."""

import pytest

from pace_async.report.diagnostics import FEWEST, RUNNING, Diagnostics, diagnostics_of, place_reaching, quarters, spikes
from tests.support.fitness import DOWN, UP


@pytest.mark.parametrize(
    ("values", "times"),
    [
        ([], 0),
        ([1.0], 0),
        ([1.0, 2.0], 0),  # not beyond twice the median, 1
        ([1.0, 2.1], 1),
        ([1.0, 9.0, 1.0, 1.0], 0),  # in the first half
        ([1.0, 1.0, 9.0, 1.0], 1),
        ([1.0, 1.0, 1.0, 9.0, 9.0, 1.0], 1),  # neighbours are one
        ([1.0, 1.0, 1.0, 1.0, 9.0, 1.0, 9.0, 1.0], 2),
        ([1.0, 1.0, 9.0, 9.0, 1.0], 1),  # the last half of 5 are 2, and a spike that began before counts
    ],
)
def test_a_spike_rises_beyond_twice_the_running_median_in_the_last_half(values: list[float], times: int) -> None:
    assert spikes(values) == times


def test_the_running_median_forgets_what_is_long_past() -> None:
    assert spikes([1.0] * 40 + [3.0] * 40) == 1
    assert spikes([9.0] * 40 + [1.0] * RUNNING + [3.0] + [1.0] * 23) == 1
    assert spikes([9.0] * 40 + [1.0] * (RUNNING // 2) + [3.0] + [1.0] * 31) == 0


def test_quarters_are_means_and_have_at_least_one_value() -> None:
    assert quarters([]) is None
    assert quarters([3.0]) == (3.0, 3.0)
    assert quarters([1.0, 2.0, 3.0]) == (1.0, 3.0)
    assert quarters([1.0, 3.0, 5.0, 5.0, 5.0, 5.0, 7.0, 10.0]) == (2.0, 8.5)


def test_a_score_is_reached_where_the_curve_is_first_as_good() -> None:
    curve = [(0.0, 1.0), (4.0, 2.0), (9.0, 3.0)]
    assert place_reaching(curve, 2.0, UP) == 4.0
    assert place_reaching(curve, 2.5, UP) == 9.0
    assert place_reaching(curve, 3.5, UP) is None
    assert place_reaching([(0.0, 3.0), (5.0, 1.0)], 2.0, DOWN) == 5.0


def test_fewer_than_eight_groups_have_no_diagnostics() -> None:
    assert diagnostics_of([], [], []) == Diagnostics(None, None, None, 0, 0)
    level = [1.0] * (FEWEST - 1)
    assert diagnostics_of(level, level, level) == Diagnostics(None, None, None, 7, 7)
    assert diagnostics_of([1.0, *level], [*level, 3.0], [2.0, 2.0, *level[1:]]) == Diagnostics(0, 1, (2.0, 1.0), 8, 8)
