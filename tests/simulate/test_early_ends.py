"""What the simulator predicts of a rule that ends evaluations early."""

from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.errors import UsageError
from pace_async.evaluate.pruning import Rules, bar_of
from pace_async.events import Curve, EvaluationAttempted
from pace_async.events.literals import Outcome
from pace_async.fitness import fitness_of
from pace_async.interface.simulating import scenario_of
from pace_async.population.timings import RecordedSeconds
from pace_async.simulate.curves import Curves, Pruning, whole_curves
from pace_async.simulate.durations import Durations
from pace_async.simulate.predict import Scenario, measure, predict
from pace_async.simulate.recorded import recorded_durations, with_whole_curves
from pace_async.task import FULL
from research.benchmarks.early_ends import read, recorded, run
from research.benchmarks.early_ends import simulated as share_predicted
from tests.support.fitness import UP
from tests.support.population_facts import advised, evaluated, fresh, opened

DOWN = fitness_of("minimize", 0.0, 1.0)
EVEN = Durations(0, 600.0, 0.0, None, generation=1.0, learning=1.0, pause=1.0)
SHAPE = Scenario(threads=4, group_size=4, bound=2, durations=EVEN, candidates=80)


@pytest.mark.long
def test_a_predicted_rule_saves_what_its_replay_on_the_same_curves_does() -> None:
    """`predictions` of the benchmark prints this for all of its sets."""
    curves = read(Path("docs/results/early_ends.csv"))
    for rules in (Rules("median"), Rules("asha", factor=2)):
        real, predicted = 0.0, 0.0
        for seed in range(3):
            made = run(recorded(curves, seed), len(curves), rules, alone=True)
            real += made.saved * len(curves) / (len(curves) - 1)
            predicted += share_predicted(made.curves, rules)
        assert predicted == pytest.approx(real, rel=0.1)


@pytest.mark.long
def test_what_is_saved_makes_a_run_faster_and_the_same_scenario_gives_the_same() -> None:
    plain = measure(SHAPE)
    with_rule = replace(SHAPE, pruning=Pruning(Rules("median", warmup=4), Curves(3)))
    found = measure(with_rule)
    assert plain.saved is None and plain.pruned == 0
    assert found.saved is not None and 0.2 < found.saved < 0.9 and 10 < found.pruned < 80
    ran, whole = found.evaluation * found.candidates, plain.evaluation * plain.candidates
    assert found.saved == pytest.approx(1 - ran / whole)
    assert found.seconds < plain.seconds
    assert measure(with_rule) == found
    assert predict(with_rule)["evaluation_saved"] == found.saved


@pytest.mark.long
def test_programs_that_are_measured_again_cost_candidates_an_hour() -> None:
    plain, bests = measure(SHAPE), measure(replace(SHAPE, repeats=3))
    parents = measure(replace(SHAPE, repeats=3, repeats_for="parents"))
    assert plain.repeats == 0 < bests.repeats < parents.repeats < 3 * parents.candidates
    assert plain.seconds < bests.seconds < parents.seconds
    assert predict(replace(SHAPE, repeats=3))["repeats"] == bests.repeats


def test_a_curve_is_that_of_its_candidate_whatever_is_stopped() -> None:
    curves = Curves(1)
    assert curves.of(5) == Curves(1).of(5) != curves.of(6)
    assert [step for step, _ in curves.of(5)] == list(range(1, 17))
    worst, *_, best = sorted(range(9), key=lambda candidate: curves.of(candidate)[-1][1])
    assert curves.reported(worst, bar_of(Rules("median"), (), UP))[1] == 1.0
    bar = bar_of(Rules("median", least=1), [(curves.of(best), True)], UP)
    reports, share = curves.reported(worst, bar)
    assert share == len(reports.curve) / 16 < 1.0
    assert curves.reported(best, bar)[1] == 1.0


def test_a_recorded_curve_that_was_stopped_goes_on_as_the_nearest_complete_one() -> None:
    low, high = ((1, 0.1), (2, 0.2), (4, 0.3)), ((1, 0.5), (2, 0.6), (4, 0.9))
    stopped = ((1, 0.4), (2, 0.55))
    assert whole_curves([(low, True), (stopped, False), (high, True), ((), True)], UP) == (
        (low, 1.0),
        ((*stopped, (4, pytest.approx(0.85))), 0.5),
        (high, 1.0),
        ((), 1.0),
    )
    assert whole_curves([(stopped, False)], UP) == ()
    assert whole_curves([(low, True)], DOWN) == ((((1, -0.1), (2, -0.2), (4, -0.3)), 1.0),)


def test_recorded_seconds_of_a_stopped_evaluation_count_as_if_it_had_gone_on() -> None:
    taken = RecordedSeconds(((1, 40.0), (3, 10.0)), 5.0, (), 1.0, 1.0, 1.0, 1.0)
    whole = ((1, 0.2), (4, 0.8))
    durations, curves = with_whole_curves(taken, {1: (whole, True), 3: (((1, 0.1),), False)}, UP, 0)
    assert durations.evaluations == (40.0, 40.0) and recorded_durations(taken, 0).evaluations == (40.0, 10.0)
    assert curves.of(0) == () and curves.of(1) == whole and curves.of(2)[-1][0] == 4
    with pytest.raises(UsageError, match="keeps whole curves"):
        with_whole_curves(taken, {}, UP, 0)


def test_a_rule_that_makes_no_sense_is_refused() -> None:
    for shape, said in (
        ({"prune": "best"}, "prune must be median or asha, not 'best'"),
        ({"prune_warmup": 3}, "prune_warmup goes with prune"),
        ({"prune": "asha", "prune_factor": 1}, "prune_factor must be a whole number of at least 2"),
        ({"prune": "median", "curve_noise": -1.0}, "curve_noise must be a number of at least 0"),
        ({"repeats": -1}, "repeats must be a whole number of at least 0"),
        ({"repeats_for": "best"}, "repeats_for must be bests or parents, not 'best'"),
    ):
        with pytest.raises(UsageError, match=said):
            scenario_of(None, shape)  # pyright: ignore[reportArgumentType]
    asked = scenario_of(None, {"repeats": 2, "repeats_for": "parents"})
    assert (asked.repeats, asked.repeats_for) == (2, "parents")
    made = scenario_of(None, {"prune": "asha", "prune_factor": 2, "curve_steps": 8}).pruning
    assert made == Pruning(Rules("asha", factor=2), Curves(0, (), 8))


async def test_a_recorded_run_gives_its_curves_and_its_settings(tmp_path: Path) -> None:
    whole = ((1, 1.0), (2, 1.25), (4, 2.0))
    async with fresh(tmp_path) as store:
        await store.commit(opened(1), advised(1), evaluated(1), reported(1, "ok", whole))
        await store.commit(opened(2), advised(2), reported(2, "timeout", None, attempt=1), evaluated(2))
        await store.commit(reported(2, "pruned", whole[:1], attempt=2))
    made = scenario_of(str(tmp_path), {"prune": "median", "prune_least": 1})
    assert made.pruning is not None and made.pruning.rules == Rules("median", least=1)
    assert made.pruning.curves.recorded == ((), whole, whole)
    assert made.durations.evaluations == (evaluated(1).seconds, 4 * evaluated(2).seconds)
    plain = scenario_of(str(tmp_path), {})
    assert plain.pruning is None and plain.durations.evaluations == (evaluated(1).seconds, evaluated(2).seconds)
    with pytest.raises(UsageError, match="like takes the curves from the run"):
        scenario_of(str(tmp_path), {"prune": "median", "curve_steps": 4})


def reported(lease: int, outcome: Outcome, curve: Curve | None, attempt: int = 1) -> EvaluationAttempted:
    accepted = outcome != "timeout"
    return EvaluationAttempted(lease, FULL, 0, attempt, outcome, 1.0, 0.0, 5.0, 6.0, "", accepted, curve=curve)
