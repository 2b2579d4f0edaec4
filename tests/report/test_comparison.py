"""Arms, intervals and curves of compared runs."""

import re
import statistics
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

from pace_async.aims import Aim
from pace_async.fitness import Fitness, fitness_of
from pace_async.observe.chart import curves
from pace_async.report import compared_curves
from pace_async.report.compared import Comparison, in_words
from pace_async.report.comparison import ComparedRun, arms_of, band, common, difference, sampled, t_quantile, verdict
from tests.support.fitness import DOWN, UP


def run(seed: int, *curve: tuple[float, float], candidates: int = 20, **settings: object) -> ComparedRun:
    return ComparedRun(
        run=f"run-{seed}",
        task="packing",
        task_digest="d1ce",
        fitness=UP,
        seed=seed,
        state="done",
        candidates=candidates,
        spend_usd=0.0,
        settings={"seed": seed, "population.url": f"url-{seed}", **settings},
        curve=curve,
        length=candidates,
    )


@pytest.mark.parametrize("freedom", [1.0, 1.5, 2.0, 3.0, 7.3, 30.0, 200.0])
def test_the_quantile_is_students(freedom: float) -> None:
    assert t_quantile(freedom) == pytest.approx(float(stats.t.ppf(0.975, freedom)), rel=1e-4)


@pytest.mark.long
@given(
    st.lists(st.floats(-10, 10), min_size=2, max_size=6, unique=True),
    st.lists(st.floats(-10, 10), min_size=2, max_size=6, unique=True),
)
def test_a_difference_has_welchs_interval(ours: list[float], theirs: list[float]) -> None:
    if min(statistics.variance(ours), statistics.variance(theirs)) < 1e-6:
        return
    one, other = arms_of(
        [
            *(run(seed, (0, score), k=1) for seed, score in enumerate(ours)),
            *(run(seed, (0, score), k=2) for seed, score in enumerate(theirs)),
        ]
    )
    found = difference(one, other, 20)
    expected: Any = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert found is not None and found.low is not None and found.high is not None
    assert (found.low, found.high) == pytest.approx((float(expected.low), float(expected.high)), rel=1e-3, abs=1e-3)


def test_runs_that_differ_only_in_the_seed_are_one_arm_and_the_rest_is_named() -> None:
    one, other = arms_of([run(1, k=1, x=5), run(2, k=2, x=5), run(3, k=1, x=5)])
    assert [each.seed for each in one.runs] == [1, 3]
    assert (one.name, one.settings, other.name, other.settings) == ("A", {"k": 1}, "B", {"k": 2})


def test_a_run_that_repeats_another_one_counts_once() -> None:
    curve = ((0, 1.0), (3, 2.0), (7, 2.5))
    repeated = [run(5, *curve), run(5, *curve, (18, 3.0), candidates=30), run(6, (0, 1.0), (2, 1.5), (4, 1.75))]
    [arm] = arms_of(repeated)
    assert [each.candidates for each in arm.repeats] == [30]
    assert arm.scores(20) == [2.5, 1.75]
    other_places = run(5, *((at / 100, score) for at, score in curve))
    assert other_places.repeats(repeated[0]), "by hours the same run has other places"
    assert not run(6, *curve).repeats(repeated[0])
    without_luck = run(5, (0, 1.0))
    assert not without_luck.repeats(run(5, (0, 1.0))), "two runs that found nothing may be two runs"


@pytest.mark.parametrize(
    ("settings", "arms"),
    [
        ({"learner.objective": "none"}, 1),
        ({"learner.objective": "pace", "learner.horizon": None}, 2),
        ({"learner.objective": "pace", "learner.horizon": 100}, 1),
    ],
)
def test_a_longer_run_is_of_the_same_arm_where_nothing_depends_on_its_end(
    settings: dict[str, object], arms: int
) -> None:
    runs = [run(seed, **settings, **{"stop.candidates": stop}) for seed, stop in ((1, 24), (2, 24), (3, 30))]
    assert len(arms_of(runs)) == arms


def test_runs_are_compared_after_the_candidates_of_the_shortest() -> None:
    long, short = run(1, (0, 1.0), (5, 2.0), (15, 3.0)), run(2, (0, 1.5), candidates=10)
    assert common([long, short]) == 10
    [arm] = arms_of([long, short])
    assert arm.scores(10) == [2.0, 1.5]
    mean = arm.mean(10)
    assert mean is not None and mean.value == 1.75 and mean.low is not None and mean.low < 1.5


def test_one_seed_has_a_mean_and_no_interval() -> None:
    one, other = arms_of([run(1, (0, 1.0), k=1), run(1, (0, 3.0), k=2)])
    found = difference(other, one, 20)
    assert found is not None and (found.value, found.low, found.high) == (2.0, None, None)


def test_a_run_without_a_score_leaves_out_the_curve_and_counts_for_no_mean() -> None:
    [arm] = arms_of([run(1), run(2, (3, 1.0))])
    assert band(arm, 20) == []
    assert arm.scores(20) == [1.0]


def test_the_mean_curve_steps_where_a_run_improves_and_begins_where_all_have_a_score() -> None:
    [arm] = arms_of([run(1, (0, 1.0), (10, 2.0)), run(2, (4, 3.0))])
    curve = band(arm, 20)
    assert [(place, one.value) for place, one in curve] == [(4, 2.0), (10, 2.5), (20, 2.5)]
    assert sampled(curve, 5, 20) == [None, 2.0, 2.5, 2.5, 2.5]
    assert sampled(curve, 11, 20)[:3] == [None, None, 2.0]


def test_curves_lie_on_one_scale() -> None:
    assert curves({"A": [0.0, 1.0], "B": [None, 2.0]}, 3) == [" B", " A", "A "]
    assert curves({"A": []}, 2) == ["", ""]


def test_arms_whose_difference_may_be_0_are_not_told_apart() -> None:
    one, other = arms_of([run(1, (0, 1.0), k=1), run(2, (0, 3.0), k=1), run(3, (0, 1.5), k=2), run(4, (0, 3.5), k=2)])
    found = difference(other, one, 20)
    assert found is not None and found.told_apart is False
    assert verdict(other, one, found, UP).startswith("B and A are not told apart")


@pytest.mark.parametrize(("fitness", "says"), [(UP, "B is better than A."), (DOWN, "B is worse than A.")])
def test_a_difference_without_0_in_its_interval_is_named_in_the_tasks_direction(fitness: Fitness, says: str) -> None:
    one, other = arms_of([run(1, (0, 1.0), k=1), run(2, (0, 1.1), k=1), run(3, (0, 9.0), k=2), run(4, (0, 9.1), k=2)])
    found = difference(other, one, 20)
    assert found is not None and found.told_apart is True
    assert verdict(other, one, found, fitness) == says


def test_one_seed_in_an_arm_tells_nothing_apart() -> None:
    one, other = arms_of([run(1, (0, 1.0), k=1), run(2, (0, 9.0), k=2)])
    found = difference(other, one, 20)
    assert found is not None and found.told_apart is None
    assert "it takes two seeds" in verdict(other, one, found, UP)


@pytest.mark.parametrize(
    ("hours", "told", "label", "scale"),
    [
        (0.0125, "45 seconds", "seconds of search", 3600.0),
        (0.25, "15 minutes", "minutes of search", 60.0),
        (1.9, "114 minutes", "minutes of search", 60.0),
        (72.0, "72 hours", "hours of search", 1.0),
    ],
)
def test_a_short_search_is_told_and_drawn_in_seconds_or_minutes(
    hours: float, told: str, label: str, scale: float
) -> None:
    assert in_words(hours, "hours") == told
    assert compared_curves.axis_of(hours, "hours") == (label, scale)
    drawn = str(compared_curves.curves(arms_of([run(1, (0.0, 1.0), (hours, 2.0))]), hours, "hours"))
    ticks = [float(value) for value in re.findall(r'class="tick middle">([\d.]+)<', drawn)]
    assert label in drawn and ticks[0] == 0 and 0.7 * hours * scale < ticks[-1] <= hours * scale


def test_printed_arms_and_runs_are_short_and_the_document_has_the_verdicts() -> None:
    runs = [run(1, (0.0, 1.0), (9.0, 2.5)), run(2, (0.0, 1.0), (3.0, 2.0)), run(3, (0.0, 1.0), (4.0, 3.5), k=2)]
    comparison = Comparison.of([*runs, run(4, k=3)])
    assert (
        repr(comparison.arms) == "(Arm('A', 2 runs, best 2.5), Arm('B', 1 run, best 3.5), Arm('C', 1 run, best none))"
    )
    assert repr(runs[0]) == "ComparedRun('run-1', 20 candidates, best 2.5)"
    lower = arms_of(
        [replace(one, fitness=DOWN, curve=((0.0, score),)) for one, score in zip(runs[:2], (3.0, 2.0), strict=True)]
    )
    assert repr(lower) == "(Arm('A', 2 runs, best 2),)"
    verdicts = comparison.document()["verdicts"]
    assert verdicts == comparison.verdicts
    assert verdicts[0] == "Whether B and A differ cannot be said: it takes two seeds with a score in each."


def test_a_run_without_a_candidate_counts_for_no_mean_and_one_that_ended_early_is_named() -> None:
    whole, other = run(1, (0.0, 1.0), (9.0, 2.5)), run(2, (0.0, 1.0), (3.0, 2.0))
    failed = replace(run(3, (0.0, 1.0)), candidates=0, length=0, state="gave_up")
    comparison = Comparison.of([whole, other, failed])
    [arm] = comparison.document()["arms"]
    assert (comparison.place, arm["seeds"], arm["mean"]) == (20, 2, 2.25)
    assert comparison.verdicts == ["run-3 has no complete candidate (gave_up), and counts for no mean."]
    assert [place for place, _ in band(comparison.arms[0], 20)] == [0.0, 3.0, 9.0, 20]
    early = replace(other, candidates=4, length=4, state="interrupted")
    assert Comparison.of([whole, early]).verdicts == [
        "run-2 ends after 4 candidates (interrupted), where all are compared: the longest goes on to 20 candidates."
    ]
    alone = Comparison.of([failed])
    assert (alone.place, alone.document()["arms"][0]["mean"], band(alone.arms[0], 0.0)) == (0.0, None, [])


def test_runs_of_a_task_that_is_minimised_are_compared_by_their_lowest_scores() -> None:
    runs = [run(seed, (0.0, 9.0), (5.0, 9.0 - k - seed / 10), k=k) for k in (1, 5) for seed in (1, 2, 3)]
    comparison = Comparison.of([replace(one, fitness=DOWN) for one in runs])
    first, second = comparison.arms
    assert repr(first) == "Arm('A', 3 runs, best 7.7)" and repr(second) == "Arm('B', 3 runs, best 3.7)"
    assert comparison.verdicts == [
        "B is better than A.",
        "B reaches the final mean of A after 5 candidates (25 %).",
    ]


def test_runs_with_objectives_are_compared_by_the_hypervolumes_of_their_fronts_too() -> None:
    fitness = fitness_of("maximize", 0.0, 1.0, (Aim("balance", True, 0.5, 1.0), Aim("seconds", False, 0.0, 2.0)))

    def several(seed: int, k: int, *fronts: tuple[float, float]) -> ComparedRun:
        return replace(run(seed, (0.0, 0.4 + seed / 10), (7.0, 0.5 + seed / 10), k=k), fitness=fitness, fronts=fronts)

    ours = [several(1, 1, (0.0, 0.1), (5.0, 0.5)), several(2, 1, (0.0, 0.1), (9.0, 0.48), (30.0, 0.9))]
    theirs = [several(3, 2, (1.0, 0.2)), several(4, 2, (2.0, 0.22))]
    comparison = Comparison.of([*ours, *theirs])
    shown = comparison.document()
    assert [row["hypervolume"] for row in shown["runs"]] == [0.5, 0.48, 0.2, 0.22]
    fronts = shown["fronts"]
    assert fronts is not None and fronts["reference"] == {"balance": 0.5, "seconds": 2.0}
    assert [arm["mean"] for arm in fronts["arms"]] == pytest.approx([0.49, 0.21])
    assert fronts["arms"][0]["low"] == pytest.approx(0.49 - 12.706 * 0.01, abs=1e-3)
    assert fronts["differences"][0]["difference"] == pytest.approx(-0.28)
    assert fronts["verdicts"][0] == "B is worse than A."
    assert "between the bounds (worse ones: balance 0.5, seconds 2)." in repr(comparison)
    assert Comparison.of([run(1, (0.0, 1.0))]).document()["fronts"] is None
