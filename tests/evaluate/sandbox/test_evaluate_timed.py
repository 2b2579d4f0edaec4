"""Instances come one by one, and the clock of a call is beyond the program's reach."""

import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.config import EvaluationConfig
from pace_async.errors import UsageError
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import Evaluation
from pace_async.evaluate.sandbox.converse import blank, last_descendant, now
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.evaluate.scorer.scorer_client import Outputs, Scorer
from pace_async.task import Task, load_task
from tests.doubles.evaluators import scored
from tests.evaluate.sandbox.tiers import SANDBOXES, Sandbox, run_program
from tests.support.evaluate_tasks import DOUBLE, EVALUATOR, make_task

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
TIMED = """
def instances(seed):
    return [{"x": 100 + i} for i in range(4)]

def score(instances, outputs, seconds, overhead):
    assert len(seconds) == len(outputs) == len(instances)
    return {"score": sum(map(float, outputs)), "least": min(seconds), "most": max(seconds), "overhead": overhead}
"""
WORK = "sum(i * i for i in range(1_000_000))"
LEAST_S = 0.01  # which a million steps take on any machine that there is


@pytest.fixture
def timed(tmp_path: Path) -> Task:
    return make_task(tmp_path / "timed", TIMED, deterministic=False)


async def evaluate(task: Task, program: str, settings: EvaluationConfig | None = None) -> Evaluation:
    tier = await pick_tier(False)
    async with open_evaluator(
        task, settings or EvaluationConfig(), tier=tier, log=task.folder.with_suffix(".log")
    ) as evaluator:
        return await scored(evaluator, program, 0)


async def test_each_call_is_timed_separately_and_the_overhead_is_reported(timed: Task) -> None:
    found = await evaluate(timed, f"def f(instance):\n    return {WORK} * 0 if instance['x'] == 102 else 0\n")
    assert found.outcome == "ok", found
    assert found.metrics["most"] > LEAST_S
    assert found.metrics["least"] < found.metrics["most"] / 2
    assert 0 <= found.metrics["overhead"] < LEAST_S  # 0 where the kernel had not yet counted a process that still ran


@pytest.mark.fault("Sandbox", "patches time")
@pytest.mark.parametrize(
    "before",
    [
        "import time\nfor n in ('time', 'perf_counter', 'monotonic', 'process_time'): setattr(time, n, lambda: 0.0)",
        "import time\ntime.clock_gettime = time.perf_counter_ns = lambda *_: 0",
        "import json, sys\njson.loads = lambda *_: {'x': 1}\nsys.setswitchinterval(1e-6)",
    ],
    ids=["clocks", "kernel_clocks", "json"],
)
async def test_patching_clocks_does_not_change_the_time(timed: Task, before: str) -> None:
    found = await evaluate(timed, f"{before}\ndef f(instance):\n    return {WORK} * 0\n")
    assert found.outcome == "ok", found
    assert found.metrics["least"] > LEAST_S


async def test_sleeping_before_the_work_gains_nothing(timed: Task) -> None:
    found = await evaluate(timed, f"import time\ndef f(instance):\n    time.sleep(0.02)\n    return {WORK} * 0\n")
    assert found.metrics["least"] > LEAST_S


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize(
    "start",
    [
        "import threading; threading.Thread(target=print).start()",
        "import os; os.fork()",
        "import subprocess; subprocess.run(['true'])",
    ],
    ids=["thread", "fork", "process"],
)
async def test_timed_work_cannot_move_to_an_uncounted_thread_or_process(sandbox: Sandbox, start: str) -> None:
    verdict, _ = await run_program(sandbox, f"def f(x):\n    {start}\n    return 1\n", timed=True)
    assert verdict.outcome == "candidate_error", verdict
    verdict, _ = await run_program(sandbox, "def f(x):\n    return 1\n", timed=True)
    assert verdict.outcome == "ok"


async def test_work_between_two_calls_is_counted(timed: Task) -> None:
    program = f"""
import sys, types
def f(instance):
    frame = sys._getframe(1)
    write = frame.f_globals["write_all"]
    if not isinstance(write, Later):
        frame.f_globals["write_all"] = Later(write)
    return 0
class Later:
    def __init__(self, write):
        self.write = write
    def __call__(self, *arguments):
        self.write(*arguments)
        {WORK}
"""
    found = await evaluate(timed, program)
    assert found.outcome == "ok", found
    assert found.metrics["most"] > LEAST_S


async def test_the_next_instance_cannot_be_read_before_the_output_is_given(tmp_path: Path) -> None:
    task = make_task(tmp_path / "sum")
    program = """
import select, sys
def f(instance):
    stdin = sys._getframe(1).f_locals["stdin"]
    ready, _, _ = select.select([stdin.fileno()], [], [], 0.1)
    return len(ready) + len(stdin.peek() if ready else b"")
"""
    assert (await evaluate(task, program)).score == 0.0


async def test_results_forged_before_their_instance_is_given_are_suspicious(timed: Task) -> None:
    program = """
import os, sys
frame = sys._getframe()
while "nonce" not in frame.f_locals:
    frame = frame.f_back
mine = frame.f_locals
for kind, text in (("loaded", "null"), *[("result", "9")] * 4):
    os.write(mine["result"], f"pace {mine['nonce']} {kind} {len(text)}\\n{text}".encode())
def f(instance):
    return 0
"""
    assert (await evaluate(timed, program)).outcome == "suspicious"


async def test_an_output_that_runs_on_into_the_next_is_refused(tmp_path: Path) -> None:
    task = make_task(tmp_path / "sum")
    async with Scorer(task.folder / "evaluator.py", tmp_path / "log") as scorer:
        for parts in ([b"1", b"2,3", b""], [b"[1", b"2]", b"3"], [b"1,2", b"3", b"4"]):
            assert (await scorer.score(Outputs(0, parts))).invalid.startswith("the output is not JSON")


async def test_a_score_that_contains_time_may_not_call_itself_deterministic(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="deterministic: false"):
        await evaluate(make_task(tmp_path / "timed", TIMED), DOUBLE)


WITH_SETTINGS = """
def instances(seed, settings):
    return [{"x": settings["x"]}]
def score(instances, outputs, settings):
    return {"score": outputs[0], **settings}
"""


def set_up(task: Task) -> Task:
    path = task.folder / "task.yaml"
    path.write_text(path.read_text() + "settings: {x: 3, step: 0.5}\n")
    return load_task(str(task.folder))


async def test_settings_reach_the_evaluator_and_those_of_the_run_win(tmp_path: Path) -> None:
    task = set_up(make_task(tmp_path / "free", WITH_SETTINGS))
    found = await evaluate(task, DOUBLE)
    assert (found.score, found.metrics) == (6.0, {"x": 3.0, "step": 0.5})
    found = await evaluate(task, DOUBLE, EvaluationConfig(settings={"x": 4, "step": 1}))
    assert (found.score, found.metrics) == (8.0, {"x": 4.0, "step": 1.0})


@pytest.mark.parametrize(
    ("chosen", "says"),
    [({"stp": 1}, "did you mean 'step'"), ({"zzz": 1}, "it has x, step"), ({"x": True}, "must be int")],
)
async def test_a_setting_that_the_task_does_not_have_is_the_users_mistake(
    tmp_path: Path, chosen: dict[str, bool | int | float | str], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        await evaluate(set_up(make_task(tmp_path / "free", WITH_SETTINGS)), DOUBLE, EvaluationConfig(settings=chosen))


async def test_settings_that_the_evaluator_does_not_take_are_the_tasks_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither instances nor score takes `settings`"):
        await evaluate(set_up(make_task(tmp_path / "deaf", EVALUATOR)), DOUBLE)


@pytest.mark.long
@given(st.recursive(st.integers() | st.floats(allow_nan=False, allow_infinity=False), st.lists))
def test_the_echoed_text_is_json_of_the_same_length_without_the_numbers(value: object) -> None:
    text = json.dumps(value)
    assert len(blank(text)) == len(text)
    assert {character for character in blank(text) if character.isdigit()} <= {"1"}
    json.loads(blank(text))


def test_the_processor_clock_of_a_process_and_the_wall_clock_where_it_has_none() -> None:
    before = now(os.getpid())
    assert before.processor is not None
    sum(range(100_000))
    assert now(os.getpid()).since(before) > 0
    gone = now(2**22 + 1)
    assert gone.processor is None
    assert now(None).since(gone) >= 0
    assert last_descendant(2**22 + 1) is None
