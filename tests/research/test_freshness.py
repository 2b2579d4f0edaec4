"""How fresh parents are: what is counted."""

import pytest

from research.trials.freshness import fresh, table


def test_what_ends_between_a_rollouts_begin_and_its_end_makes_its_parent_old() -> None:
    alone = [(1.0, 0.2, 0.0, 0.0), (2.0, 0.3, 0.2, 1.0), (3.0, None, 0.3, 2.0)]
    assert fresh(alone) == pytest.approx((0.0, 0.0, 2 / 3, 1.0))
    beside = [(1.0, 0.3, 0.0, 0.0), (2.0, 0.2, 0.0, 0.0), (3.0, 0.1, 0.0, 0.0)]
    assert fresh(beside) == pytest.approx((1.0, 0.2, 1.0, 1 / 3))


def test_a_row_is_the_mean_of_an_arms_runs() -> None:
    [*_, row] = table({"none": [(1.0, 0.2, 1.0, 0.5), (3.0, 0.2, 1.0, 0.5)]})
    assert row == "| none | 2 | 2.000 ± 1.414 | 0.200 ± 0.000 | 1.000 ± 0.000 | 0.500 ± 0.000 |"
