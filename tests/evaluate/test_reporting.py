"""Command tasks whose evaluator reports values, in the sandbox."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.config import EvaluationConfig
from pace_async.errors import UsageError
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import Evaluation, EvaluationRequest, Limits, evaluate
from pace_async.evaluate.local import LocalEvaluator
from pace_async.evaluate.pruning import MOST_POINTS, Bar, Rules, bar_of
from pace_async.task import load_task
from tests.doubles.evaluators import request
from tests.support.command_tasks import SOURCED, make_command_task, make_python_task
from tests.support.evaluating import evaluating
from tests.support.task_folders import write

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
GOOD = "echo '{\"combined_score\": 9}' > $RESULTS/metrics.json\n"
REPORTS = 'echo "{\\"step\\": 1, \\"value\\": 0.25}"; echo "{\\"step\\": 2, \\"value\\": 0.5}"\n'


def listening(evaluator: LocalEvaluator, *needed: float) -> Bar:
    """The bar after five completed evaluations with these values from step 1 on, in the task's direction."""
    curve = tuple(enumerate(needed, 1))
    return bar_of(Rules("median"), [(curve, True)] * 5 if curve else (), evaluator.task.spec.fitness)


async def tried(evaluator: LocalEvaluator, program: str, bar: Bar | None) -> Evaluation:
    asked: EvaluationRequest = replace(request(program), limits=Limits.of(evaluator.task.spec), bar=bar)
    return await evaluate(evaluator, asked)


async def test_an_evaluation_that_falls_behind_is_killed_and_says_where_it_stood(tmp_path: Path) -> None:
    hangs = REPORTS + "sleep 1000\n" + GOOD
    async with evaluating(make_command_task(tmp_path / "any", SOURCED, program=GOOD)) as evaluator:
        found = await tried(evaluator, hangs, listening(evaluator, 0.25, 0.75))
    assert (found.outcome, found.score, found.metrics) == ("pruned", None, {})
    assert found.detail == "stopped at step 2 with 0.5, where earlier programs had 0.75"
    assert found.curve == ((1, 0.25), (2, 0.5))
    [attempt] = found.attempts
    assert (attempt.outcome, attempt.curve, attempt.accepted) == ("pruned", found.curve, True)
    assert attempt.reported_by == "evaluator"
    assert found.seconds < Limits.of(evaluator.task.spec).seconds


async def test_one_that_keeps_up_is_scored_and_keeps_its_curve(tmp_path: Path) -> None:
    async with evaluating(make_command_task(tmp_path / "any", SOURCED, program=GOOD)) as evaluator:
        found = await tried(evaluator, REPORTS + GOOD, listening(evaluator, 0.25, 0.5))
        known = await tried(evaluator, REPORTS + GOOD, listening(evaluator, 0.9))
        unheard = await tried(evaluator, REPORTS + "true\n" + GOOD, None)
    assert (found.outcome, found.score, found.curve) == ("ok", 9.0, ((1, 0.25), (2, 0.5)))
    assert (known.outcome, known.memoised, known.curve) == ("ok", True, None)
    assert (unheard.outcome, unheard.curve, unheard.attempts[0].curve) == ("ok", None, None)


async def test_a_stopped_program_is_evaluated_again_when_it_comes_again(tmp_path: Path) -> None:
    async with evaluating(make_command_task(tmp_path / "any", SOURCED, program=GOOD)) as evaluator:
        stopped = await tried(evaluator, REPORTS + "sleep 1000 &\nwait $!\n" + GOOD, listening(evaluator, 0.9))
        again = await tried(evaluator, REPORTS + GOOD, listening(evaluator, 0.0))
    assert (stopped.outcome, again.outcome, again.memoised) == ("pruned", "ok", False)


async def test_a_flood_of_reports_is_a_flood_of_output_and_gives_no_score(tmp_path: Path) -> None:
    many = "i=0; while [ $i -lt 3000 ]; do echo '{\"step\": '$i', \"value\": 1e300}'; i=$((i+1)); done\n"
    fast = 'yes \'{"step": 1, "value": 1e300}\'\n'
    async with evaluating(make_command_task(tmp_path / "any", SOURCED, program=GOOD)) as evaluator:
        found = await tried(evaluator, fast, listening(evaluator, 0.5))
        endless = await tried(evaluator, many + GOOD, listening(evaluator))
    assert (found.outcome, found.score, found.curve) == ("output_overflow", None, ((1, 1e300),))
    assert (endless.outcome, endless.score) == ("ok", 9.0)
    assert endless.curve is not None and len(endless.curve) == MOST_POINTS


async def test_the_print_of_a_python_evaluator_is_a_report_too(tmp_path: Path) -> None:
    evaluator = """
        import json, time

        def evaluate(program):
            for step in range(1, 100):
                print(json.dumps({"step": step, "value": step / 100}))
                if step == 3:
                    time.sleep(1000)
            return {"combined_score": 1.0}
    """
    task = make_python_task(tmp_path / "any", evaluator, "x = 1\n")
    async with evaluating(task) as opened:
        found = await tried(opened, "x = 1\n", listening(opened, 0.0, 0.0, 0.5))
    assert (found.outcome, found.curve) == ("pruned", ((1, 0.01), (2, 0.02), (3, 0.03)))


async def test_a_scorer_that_gives_no_values_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "mine")
    task = load_task(str(tmp_path / "mine"))
    with pytest.raises(UsageError, match="has no function so_far"):
        async with open_evaluator(task, EvaluationConfig(prune="median")):
            pass
