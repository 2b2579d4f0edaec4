"""Function and process tasks whose trusted scorer values the first outputs, in the sandbox."""

import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from pace_async.config import EvaluationConfig
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import Evaluation, evaluate
from pace_async.evaluate.following import MOST_VALUES, Follower, valued_steps
from pace_async.evaluate.local import LocalEvaluator
from pace_async.evaluate.pruning import Bar, Reports, Rules, bar_of
from pace_async.fitness import fitness_of
from pace_async.task import Task, load_task
from pace_async.task.finding import find_task
from tests.doubles.evaluators import request
from tests.support.evaluating import evaluating
from tests.support.task_folders import TASK, write

sandboxed = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
COUNT = 6
HIGHER = fitness_of("maximize", 0.0, 1.0)
EVALUATOR = f"""
def instances(seed):
    return [{{"x": x}} for x in range({COUNT})]

def score(instances, outputs):
    return {{"score": float(sum(outputs)) / len(outputs)}}

def so_far(instances, outputs):
    if len(instances) != len(outputs):
        raise RuntimeError("it gets the instances of its outputs")
    return score(instances, outputs)
"""
WAITS = "import time\ndef f(instance):\n    time.sleep({seconds} if instance['x'] >= 2 else 0)\n    return {value}\n"
FAST = "def f(instance):\n    return {value}\n"


def task_of(folder: Path, evaluator: str = EVALUATOR, extra: str = "") -> Task:
    write(folder, evaluator__py=evaluator, task__yaml=TASK.replace("timeout_s: 5", "timeout_s: 120") + extra)
    return load_task(str(folder))


def bar(*values: float, margin: float = 0.0) -> Bar:
    """The bar after five completed evaluations with these values from step 1 on."""
    curve = tuple(enumerate(values, 1))
    return bar_of(Rules("median", margin=margin), [(curve, True)] * 5, HIGHER)


async def tried(evaluator: LocalEvaluator, program: str, bar: Bar | None) -> Evaluation:
    return await evaluate(
        evaluator, replace(request(program), limits=replace(request("").limits, seconds=120), bar=bar)
    )


@sandboxed
async def test_a_hopeless_program_is_killed_amid_its_instances_and_a_good_one_is_scored(tmp_path: Path) -> None:
    needed = bar(*(0.5 for _ in range(COUNT)))
    async with evaluating(task_of(tmp_path / "mine")) as evaluator:
        hopeless = await tried(evaluator, WAITS.format(seconds=1000, value=0.25), needed)
        good = await tried(evaluator, WAITS.format(seconds=0.1, value=0.75), needed)
        noisy = await tried(evaluator, FAST.format(value=0.45), bar(*(0.5 for _ in range(COUNT)), margin=0.1))
    assert (hopeless.outcome, hopeless.score, hopeless.metrics) == ("pruned", None, {})
    assert hopeless.detail == "stopped at step 1 with 0.25, where earlier programs had 0.5"
    assert hopeless.seconds < 120
    assert (good.outcome, good.score) == ("ok", 0.75)
    assert (noisy.outcome, noisy.score) == ("ok", 0.45)
    assert good.curve == tuple((step, 0.75) for step in range(1, COUNT)), "the last value is the score"
    assert hopeless.curve == ((1, 0.25),) and hopeless.attempts[0].curve == hopeless.curve
    assert [one.attempts[0].reported_by for one in (hopeless, good)] == ["scorer", "scorer"]


@sandboxed
async def test_speed_decides_nothing_a_program_that_has_ended_is_stopped_at_the_same_step(tmp_path: Path) -> None:
    needed = bar(0.0, 0.0, 0.5)
    crashes = "def f(instance):\n    return 0.25 if instance['x'] < 4 else 1 / 0\n"
    async with evaluating(task_of(tmp_path / "mine")) as evaluator:
        slow = await tried(evaluator, WAITS.format(seconds=0.2, value=0.25), needed)
        fast = await tried(evaluator, FAST.format(value=0.25), needed)
        crashed = await tried(evaluator, crashes, needed)
        sooner = await tried(evaluator, crashes.replace("4", "2"), needed)
    for found in (slow, fast, crashed):
        assert (found.outcome, found.curve) == ("pruned", ((1, 0.25), (2, 0.25), (3, 0.25)))
    assert (sooner.outcome, sooner.curve) == ("candidate_error", ((1, 0.25), (2, 0.25)))


@sandboxed
async def test_without_a_bar_nothing_is_asked_and_the_result_is_the_same(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    leaves = EVALUATOR.replace("    if len(instances)", f"    open({str(asked)!r}, 'w')\n    if len(instances)")
    async with evaluating(task_of(tmp_path / "mine", leaves)) as evaluator:
        found = await tried(evaluator, FAST.format(value=0.75), None)
    async with evaluating(task_of(tmp_path / "plain", EVALUATOR.partition("def so_far")[0])) as evaluator:
        plain = await tried(evaluator, FAST.format(value=0.75), None)
    assert (found.outcome, found.score, found.metrics, found.curve) == (plain.outcome, plain.score, plain.metrics, None)
    assert not await anyio.Path(asked).exists()


@sandboxed
async def test_values_that_cannot_be_had_stop_nothing_and_are_reported(tmp_path: Path) -> None:
    said = list[tuple[str, str]]()

    async def say(kind: str, detail: str) -> None:
        said.append((kind, detail))

    broken = EVALUATOR.replace("len(instances) != len(outputs)", "len(outputs) == 3")
    async with open_evaluator(task_of(tmp_path / "mine", broken), EvaluationConfig(prune="median"), say=say) as opened:
        failed = await tried(opened, FAST.format(value=0.75), bar(0.5))
        refused = await tried(opened, FAST.format(value="'text'"), bar(0.5))
    assert (failed.outcome, failed.score, failed.curve) == ("ok", 0.75, ((1, 0.75), (2, 0.75)))
    assert (refused.outcome, refused.curve) == ("invalid_score", None)
    assert said and all(kind == "no_value" for kind, _ in said)
    assert "it gets the instances of its outputs" in said[0][1]


@sandboxed
async def test_evaluations_that_run_and_are_scored_at_once_wait_for_one_scorer_and_end(tmp_path: Path) -> None:
    config = EvaluationConfig(retries=0, slots=3, scorers=1, prune="median")
    found = list[Evaluation]()
    async with open_evaluator(task_of(tmp_path / "mine", extra="\n"), config) as opened:

        async def one(number: int) -> None:
            base = request(FAST.format(value=0.5 + number / 100))
            asked = replace(base, id=replace(base.id, lease=number + 1), bar=bar(0.5))
            found.append(await evaluate(opened, asked))

        with anyio.fail_after(120):
            async with anyio.create_task_group() as tg:
                for number in range(8):
                    tg.start_soon(one, number)
                tg.start_soon(_alone, opened)
    assert [one.outcome for one in found] == ["ok"] * 8


async def _alone(opened: LocalEvaluator) -> None:
    async with opened.turns.alone():
        await anyio.lowlevel.checkpoint()


@sandboxed
async def test_a_bundled_task_gives_values(tmp_path: Path) -> None:
    task = load_task(str(find_task("prism")))
    async with evaluating(task) as evaluator:
        asked = replace(request(task.program), bar=bar_of(Rules("median"), (), task.spec.fitness))
        found = await evaluate(evaluator, asked)
    assert found.score is not None and found.curve is not None
    assert [step for step, _ in found.curve] == list(range(2, 40, 2))
    assert abs(found.curve[-1][1] / found.score - 1) < 0.2


@pytest.mark.parametrize("instances", [1, 2, 20, 21, 40, 45, 1000])
def test_there_are_few_values_and_none_after_the_last_output(instances: int) -> None:
    steps = valued_steps(instances)
    assert len(steps) < MOST_VALUES + 1 and instances not in steps
    assert instances == 1 or steps[0] == -(-instances // MOST_VALUES)


async def test_outputs_that_came_before_the_end_have_their_values() -> None:
    asked = list[int]()

    async def value(texts: object, calls: object, echoes: object) -> float:
        asked.append(len(texts))  # pyright: ignore[reportArgumentType]
        await anyio.lowlevel.checkpoint()
        return 0.75

    follower = Follower(Reports(bar(0.5, 0.5, 0.5, 0.9)), value, 10)
    async with follower.beside():
        follower.heard([b"1"], [0.0], [])
        await anyio.wait_all_tasks_blocked()
        assert asked == [1]
        follower.heard([b"1"] * 9, [0.0] * 9, [])
    assert asked == [1, 2, 3, 4] and follower.missed.is_set() and follower.reports.missed == 0.9
