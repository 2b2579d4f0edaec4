"""Runs whose evaluations report curves and end early, under the virtual clock."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest

from pace_async.evaluate.base import Evaluation, EvaluationRequest
from pace_async.evaluate.pruning import Reports, in_words
from pace_async.population.reading.curves import reports_of, saved_by
from pace_async.population.reading.questions import show, status
from pace_async.reward import RewardRule
from pace_async.runtime.run.core import Core
from pace_async.simulate.runs import TINY_TASK, SimulatedFaults
from pace_async.simulate.stages import SimulatedEvaluator, World
from pace_async.simulate.virtual import run_virtually
from tests.support.simulated_runs import settings
from tests.support.virtual_runs import ROLLOUTS, Life, durations

STEPS, STEP_S = 8, 60.0
FAULTS = SimulatedFaults(unparsed_every=0, fails_every=0)
CURVES = "select lease, outcome, curve, attempt from evaluation_attempts order by lease, attempt"
MEDIAN: Mapping[str, object] = {"evaluation__prune": "median", "evaluation__prune_warmup": 2}
ASHA: Mapping[str, object] = {"evaluation__prune": "asha", "evaluation__prune_factor": 2}


@dataclass
class Learning(SimulatedEvaluator):
    """The score of a program comes to light in STEPS equal steps of STEP_S seconds."""

    async def run(self, request: EvaluationRequest) -> Evaluation:
        whole = self.verdict(request, STEPS * STEP_S, 0.0)
        assert whole.score is not None
        if request.bar is None:
            await anyio.sleep(STEPS * STEP_S)
            return whole
        reports = Reports(request.bar)
        for step in range(1, STEPS + 1):
            await anyio.sleep(STEP_S)
            reports.add(step, self.lower + (whole.score - self.lower) * step / STEPS)
            if reports.missed is not None:
                said = in_words(reports.curve, reports.missed)
                return Evaluation("pruned", None, step * STEP_S, said, curve=reports.curve)
        return replace(whole, curve=reports.curve)


def learns(core: Core) -> None:
    simulated = core.stages.evaluator
    assert isinstance(simulated, SimulatedEvaluator)
    evaluator = Learning(simulated.world, simulated.lower, simulated.upper, fails_every=0)
    core.stages = replace(core.stages, evaluator=evaluator)


def life(folder: Path, **more: object) -> Life:
    config = settings(seed=5, stop__candidates=60, **more)
    return Life(folder, config, World(seed=5, durations=durations(5), reattaches=True), FAULTS)


@pytest.mark.long
@pytest.mark.parametrize("rules", [MEDIAN, ASHA])
def test_what_is_stopped_saves_its_seconds_and_is_no_best_no_parent_and_no_failure(
    tmp_path: Path, rules: Mapping[str, object]
) -> None:
    run = life(tmp_path, **rules).live(begun=learns)
    assert run.state == "done"
    pruned = run.rows(
        "select candidate, score, reward, detail, seconds, program from candidates where outcome = 'pruned'"
    )
    assert 10 < len(pruned) < 50
    rule = RewardRule(TINY_TASK.spec.fitness)
    for candidate, score, reward, detail, seconds, program in pruned:
        curve, _ = run_virtually(
            lambda number=candidate: run.population.read(lambda asked: reports_of(asked, 1, number))
        )
        step, value = curve[-1]
        assert score is None and program and seconds == step * STEP_S < STEPS * STEP_S
        needed = float(detail.rpartition(" ")[2])
        assert detail == in_words(curve, needed) and value < needed
        assert reward == rule.of_score(value, parent=0.0, seed=0.0) >= 0.0
    stopped = [row[0] for row in pruned]
    assert not set(stopped) & {parent for (parent,) in run.rows("select distinct parent from candidates")}
    [(ran,)] = run.rows("select sum(seconds) from candidates where candidate > 0")
    found = run_virtually(lambda: run.population.read(status))
    saved = 60 * STEPS * STEP_S - ran
    assert found["evaluation_saved"] == pytest.approx(saved / (ran + saved))
    assert run_virtually(lambda: run.population.read(lambda asked: saved_by(asked, 1))).pruned == len(pruned)
    shown = run_virtually(lambda: run.population.read(lambda asked: show(asked, stopped[0])))
    assert len(shown["curve"]) < STEPS and shown["outcome"] == "pruned"


def test_a_run_that_stops_none_records_nothing_and_takes_longer(tmp_path: Path) -> None:
    with_stops = life(tmp_path / "stops", **MEDIAN).live(begun=learns)
    without = life(tmp_path / "all").live(begun=learns)
    assert without.rows("select count(*) from candidates where outcome = 'pruned'") == [(0,)]
    assert without.rows("select count(curve) from evaluation_attempts") == [(0,)]
    assert with_stops.time < without.time


@pytest.mark.long
@pytest.mark.parametrize("rules", [MEDIAN, ASHA])
def test_a_run_that_is_killed_amid_evaluations_stops_the_same_ones_when_it_goes_on(
    tmp_path: Path, rules: Mapping[str, object]
) -> None:
    whole = life(tmp_path / "whole", **rules, staleness__mode="sync").live(begun=learns)
    assert whole.rows("select count(*) > 10 from candidates where outcome = 'pruned'") == [(1,)]
    for cut in (20, 90, 151):
        run = life(tmp_path / f"cut {cut}", **rules, staleness__mode="sync")
        assert run.live(cut, begun=learns).state == "interrupted"
        assert run.rows("select count(*) > 0 from leases where state = 'open'") == [(1,)]
        assert run.live(begun=learns).state == "done"
        assert run.rows(ROLLOUTS) == whole.rows(ROLLOUTS)
        assert run.rows(CURVES) == whole.rows(CURVES)
    curves = [json.loads(curve) for _, _, curve, _ in whole.rows(CURVES) if curve]
    assert all(step == place for curve in curves for place, (step, _) in enumerate(curve, 1))
