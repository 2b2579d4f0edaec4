"""The range of hours of a run, against values by hand."""

import pytest

from pace_async.plan.hours import Pace, Shape, in_words, seconds_of, training_seconds

PACE = Pace(advice=10, program=30, evaluation=100, training=60)


@pytest.mark.parametrize(
    ("shape", "seconds"),
    [
        (Shape(800, group_size=8, threads=8, slots=8, barrier=True), 100 * (40 + 100 + 60)),
        (Shape(800, group_size=8, threads=8, slots=3, barrier=True), 100 * (40 + 3 * 100 + 60)),
        (Shape(800, group_size=8, threads=4, slots=8, barrier=True), 100 * (2 * 40 + 2 * 100 + 60)),
        (Shape(800, group_size=8, threads=8, slots=8, barrier=False), 800 * 140 / 8),  # the threads decide
        (Shape(800, group_size=8, threads=8, slots=2, barrier=False), 800 * 100 / 2),  # the evaluations
        (Shape(800, group_size=8, threads=40, slots=40, barrier=False), 100 * 60),  # the learner
    ],
)
def test_the_seconds_of_a_run_are_those_of_its_slowest_part_or_of_all_in_turn(shape: Shape, seconds: float) -> None:
    assert seconds_of(shape, PACE) == pytest.approx(seconds)


def test_training_counts_operations_and_the_push() -> None:
    assert training_seconds(3_000_000_000, 100_000, 34.0) == pytest.approx(16.0 + 34.0)


def test_a_range_names_its_assumptions() -> None:
    shape = Shape(8000, group_size=8, threads=8, slots=8, barrier=True)
    least = Pace(advice=17, program=30, evaluation=0, training=61)
    most = Pace(advice=75, program=160, evaluation=600, training=61)
    assert in_words(shape, least, most).startswith("30 to 250, by speeds that are assumed")  # 108,000 s and 896,000 s
