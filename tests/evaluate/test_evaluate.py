"""A program's score, from its text to the evaluation: outcomes, slots, retries, and what is remembered."""

import sys
from pathlib import Path

import anyio
import pytest

from pace_async.config import EvaluationConfig
from pace_async.errors import UsageError
from pace_async.evaluate.assemble import evaluate_file, open_evaluator
from pace_async.evaluate.base import Evaluation, Evaluator
from pace_async.evaluate.memo import Key, ScoreMemo
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.evaluate.sandbox.tiers import Bubblewrap, Tier
from pace_async.evaluate.scorer.scorer_client import Bounds
from pace_async.task import Task
from tests.doubles.evaluators import scored
from tests.evaluate.sandbox.tiers import TIERS
from tests.support.evaluate_tasks import DOUBLE, make_task

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
each_tier = pytest.mark.parametrize("tier", TIERS)


@pytest.fixture
async def tier() -> Tier:
    return await pick_tier(False)


async def evaluate(
    task: Task, program: str, tier: Tier, settings: EvaluationConfig | None = None, seed: int = 0
) -> Evaluation:
    async with open_evaluator(
        task, settings or EvaluationConfig(), tier=tier, log=task.folder.with_suffix(".log")
    ) as opened:
        evaluator: Evaluator = opened
        return await scored(evaluator, program, seed)


@each_tier
async def test_a_program_is_scored_with_its_metrics(tier: Tier, tmp_path: Path) -> None:
    found = await evaluate(make_task(tmp_path / "sum"), DOUBLE, tier, seed=4)
    assert (found.outcome, found.score, found.metrics) == ("ok", 30.0, {"count": 3.0})
    assert found.seconds > 0
    assert not found.memoised


@each_tier
async def test_the_same_program_gets_the_same_score_twice(tier: Tier, tmp_path: Path) -> None:
    program = """
import random
import numpy as np
def f(instance):
    order = list({"a", "b", "c", str(instance["x"])})
    return float(np.random.default_rng(instance["x"]).random()) + order.index("a")
"""
    task = make_task(tmp_path / "sum", deterministic=False)
    assert (await evaluate(task, program, tier)).score == (await evaluate(task, program, tier)).score


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("return 1 / 0", "candidate_error"),
        ("while True: pass", "timeout"),
        ("return len(bytearray(2 << 30))", "out_of_memory"),
        ("print('x' * (2 << 20))", "output_overflow"),
        ("return 'text'", "invalid_score"),
        ("return float('nan')", "invalid_score"),
        ("return True", "invalid_score"),
        ("for n in range(3, 4096): stray(n)", "suspicious"),
    ],
)
async def test_each_way_to_fail_has_its_outcome_and_no_score(
    tier: Tier, tmp_path: Path, body: str, outcome: str
) -> None:
    helper = "import os\ndef stray(n):\n    try: os.write(n, b'stray')\n    except OSError: pass\n"
    task = make_task(tmp_path / "sum", timeout_s=2.0)
    found = await evaluate(task, f"{helper}def f(instance):\n    {body}\n", tier)
    assert (found.outcome, found.score) == (outcome, None)
    assert found.detail
    assert found.detail.isprintable()


@pytest.mark.fault("Sandbox", "64 evaluations on 2 slots")
async def test_at_most_as_many_candidates_run_at_once_as_there_are_slots(tier: Tier, tmp_path: Path) -> None:
    task = make_task(
        tmp_path / "clock",
        """
        def instances(seed):
            return [seed]
        def score(instances, outputs):
            began, ended = outputs[0]
            return {"score": 0, "began": began, "ended": ended}
        """,
        deterministic=False,
    )
    program = """
import time
def f(instance):
    began = time.monotonic()
    sum(range(1_000_000))
    return [began, time.monotonic()]
"""
    found: list[Evaluation] = []
    async with open_evaluator(task, EvaluationConfig(slots=2), tier=tier, log=tmp_path / "log") as evaluator:

        async def one(seed: int) -> None:
            found.append(await scored(evaluator, program, seed))

        async with anyio.create_task_group() as tg:
            for seed in range(64):
                tg.start_soon(one, seed)
    spans = [(evaluation.metrics["began"], evaluation.metrics["ended"]) for evaluation in found]
    assert len(spans) == 64
    assert max(sum(began <= moment < ended for began, ended in spans) for moment, _ in spans) <= 2


async def test_a_deterministic_tasks_score_is_remembered_and_marked(tier: Tier, tmp_path: Path) -> None:
    async with open_evaluator(
        make_task(tmp_path / "sum"), EvaluationConfig(), tier=tier, log=tmp_path / "log"
    ) as evaluator:
        first = await scored(evaluator, DOUBLE, 0)
        again = await scored(evaluator, DOUBLE, 0)
        other_seed = await scored(evaluator, DOUBLE, 1)
    assert (first.memoised, again.memoised, other_seed.memoised) == (False, True, False)
    assert (again.outcome, again.score, again.metrics) == (first.outcome, first.score, first.metrics)
    assert other_seed.score != first.score


LINE = """
def f(instance):
    try:
        raise ValueError
    except ValueError as error:
        return error.__traceback__.tb_lineno
"""


@pytest.mark.fault("Programs as weapons", "a program or an evaluator that reads the source")
async def test_a_program_that_knows_its_line_numbers_gets_its_own_score(tier: Tier, tmp_path: Path) -> None:
    task = make_task(
        tmp_path / "lines",
        evaluator="""
        def instances(seed):
            return [seed]
        def score(instances, outputs):
            return {"score": outputs[0]}
        """,
    )
    settings = EvaluationConfig(memo=tmp_path / "scores.sqlite")
    texts = (LINE, "# a comment\n" + LINE, LINE + "\n\n")
    for known in (False, True):
        async with open_evaluator(task, settings, tier=tier, log=tmp_path / "log") as evaluator:
            found = [await scored(evaluator, text, 0) for text in texts]
        assert [evaluation.score for evaluation in found] == [4.0, 5.0, 4.0]
        assert [evaluation.memoised for evaluation in found] == [known] * len(texts)


async def test_a_task_that_is_not_deterministic_is_scored_each_time(tier: Tier, tmp_path: Path) -> None:
    task = make_task(tmp_path / "sum", deterministic=False)
    async with open_evaluator(task, EvaluationConfig(), tier=tier, log=tmp_path / "log") as evaluator:
        found = [await scored(evaluator, DOUBLE, 0) for _ in range(2)]
    assert [evaluation.memoised for evaluation in found] == [False, False]


async def test_a_memo_file_is_shared_between_runs_and_forgets_when_the_task_changes(tier: Tier, tmp_path: Path) -> None:
    settings = EvaluationConfig(memo=tmp_path / "memo" / "scores.sqlite")
    task = make_task(tmp_path / "sum")
    assert not (await evaluate(task, DOUBLE, tier, settings)).memoised
    assert (await evaluate(task, DOUBLE, tier, settings)).memoised
    changed = make_task(tmp_path / "sum", memory_mb=300)
    assert not (await evaluate(changed, DOUBLE, tier, settings)).memoised


async def test_the_memo_in_memory_keeps_the_scores_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pace_async.evaluate.memo.IN_MEMORY", 2)
    memo = ScoreMemo(None)
    first, second, third = (Key("digest", seed, "hash", "here") for seed in range(3))
    await memo.put(first, Evaluation("ok", 1.0, 9.0))
    await memo.put(second, Evaluation("ok", 2.0, 9.0))
    assert await memo.get(first) == Evaluation("ok", 1.0, 0.0, memoised=True)
    await memo.put(third, Evaluation("ok", 3.0, 9.0))
    assert [await memo.get(key) is not None for key in (first, second, third)] == [True, False, True]


@pytest.mark.parametrize("body", ["while True: pass", "return len(bytearray(2 << 30))"], ids=["timeout", "memory"])
async def test_outcomes_that_depend_on_the_machines_load_are_not_remembered(
    tier: Tier, tmp_path: Path, body: str
) -> None:
    task = make_task(tmp_path / "sum", timeout_s=2.0)
    async with open_evaluator(task, EvaluationConfig(), tier=tier, log=tmp_path / "log") as evaluator:
        found = [await scored(evaluator, f"def f(instance):\n    {body}\n", 0) for _ in range(2)]
    assert [evaluation.memoised for evaluation in found] == [False, False]


async def test_a_file_that_is_no_memo_is_the_users_mistake(tier: Tier, tmp_path: Path) -> None:
    memo = tmp_path / "memo"
    memo.write_text("this is not a database, and it is long enough to be read as one" * 20)
    with pytest.raises(UsageError, match=r"evaluation\.memo"):
        await evaluate(make_task(tmp_path / "sum"), DOUBLE, tier, EvaluationConfig(memo=memo))


async def test_a_sandbox_that_cannot_start_is_tried_again_and_never_remembered(tmp_path: Path) -> None:
    count = tmp_path / "count"
    broken = tmp_path / "bwrap"
    broken.write_text(f"#!/bin/sh\necho x >> {count}\necho cannot make a namespace >&2\nexit 1\n")
    broken.chmod(0o755)
    task = make_task(tmp_path / "sum")
    settings = EvaluationConfig(retries=2, warm=False)
    async with open_evaluator(task, settings, tier=Bubblewrap(str(broken)), log=tmp_path / "log") as evaluator:
        found = [await scored(evaluator, DOUBLE, 0) for _ in range(2)]
    assert [evaluation.outcome for evaluation in found] == ["infrastructure_error"] * 2
    assert [evaluation.memoised for evaluation in found] == [False, False]
    assert found[0].detail == "the sandbox ended (exit code 1): cannot make a namespace"
    assert count.read_text() == "x\n" * 6


@pytest.mark.fault("Sick, not dead", "a scorer that hangs, grows or dies")
async def test_a_scorer_that_dies_once_is_reported_and_costs_a_retry_and_not_the_candidate(
    tier: Tier, tmp_path: Path
) -> None:
    told: list[tuple[str, str]] = []

    async def say(kind: str, detail: str) -> None:
        told.append((kind, detail))

    task = make_task(
        tmp_path / "fragile",
        f"""
        import os, pathlib
        mark = pathlib.Path({str(tmp_path / "died")!r})
        def instances(seed):
            return [seed]
        def score(instances, outputs):
            if not mark.exists():
                mark.touch()
                os._exit(1)
            return {{"score": outputs[0]}}
        """,
    )
    async with open_evaluator(task, EvaluationConfig(), tier=tier, log=tmp_path / "log", say=say) as evaluator:
        found = await scored(evaluator, "def f(instance):\n    return 7")
    assert (found.outcome, found.score) == ("ok", 7.0)
    why = "the process of the task's evaluator ended by itself"
    assert told == [("scorer_died", f"{why}; another is started for the next score")]


@pytest.mark.fault("Sick, not dead", "a scorer that hangs, grows or dies")
async def test_a_scorer_that_hangs_is_reported_and_the_candidate_is_scored(
    tier: Tier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(memory_mb: int | None, scorers: int, values: int) -> Bounds:
        return Bounds(256, 1.0, values)

    monkeypatch.setattr(Bounds, "of", short)
    told: list[tuple[str, str]] = []

    async def say(kind: str, detail: str) -> None:
        told.append((kind, detail))

    task = make_task(
        tmp_path / "hangs",
        f"""
        import os, pathlib, signal
        mark = pathlib.Path({str(tmp_path / "hung")!r})
        def instances(seed):
            return [seed]
        def score(instances, outputs):
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGSTOP)
            return {{"score": outputs[0]}}
        """,
    )
    async with open_evaluator(task, EvaluationConfig(), tier=tier, log=tmp_path / "log", say=say) as evaluator:
        found = await scored(evaluator, "def f(instance):\n    return 7")
    assert (found.outcome, found.score) == ("ok", 7.0)
    assert [kind for kind, _ in told] == ["scorer_timeout"]
    assert told[0][1].startswith("the process of the task's evaluator took more than ")


async def test_a_program_of_two_megabytes_is_refused_without_a_run(tier: Tier, tmp_path: Path) -> None:
    found = await evaluate(make_task(tmp_path / "sum"), "x = 1\n" * 350_000, tier)
    assert (found.outcome, found.seconds) == ("candidate_error", 0.0)


async def test_one_file_is_scored_as_a_run_would(tmp_path: Path) -> None:
    task = make_task(tmp_path / "sum")
    found = await evaluate_file(task, task.program, EvaluationConfig(seed=1))
    assert (found.outcome, found.score) == ("ok", 12.0)
