"""A scorer is bounded in memory, processor time and time. Outputs that break it twice are the candidate's fault."""

import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import indent

import anyio
import pytest

from pace_async.config import EvaluationConfig
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.local import Turns, score_fairly
from pace_async.evaluate.sandbox import cgroup
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.evaluate.scorer.scorer_client import Bounds, Outputs, OverBound, Scorer, ScorerResult, Scorers
from pace_async.task import Task, load_task
from tests.doubles.evaluators import scored
from tests.support.control_groups import settle
from tests.support.evaluate_tasks import make_task

SMALL = Bounds(memory_mb=256, seconds=1.0)


class Counted(Turns):
    """Counts how often a task ran alone."""

    def __init__(self) -> None:
        super().__init__()
        self.times = 0

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        self.times += 1
        async with super().alone():
            yield


def task_that(folder: Path, does: str) -> Task:
    """A task whose evaluator writes a line when it is loaded, and does this with an output that is a text."""
    return make_task(
        folder / "bounded",
        f"""
import os, pathlib, signal, time
here = pathlib.Path({str(folder)!r})
with (here / "starts").open("a") as stream:
    print("started", file=stream)
def instances(seed):
    return [seed]
def score(instances, outputs):
    if isinstance(outputs[0], str):
{indent(does, " " * 8)}
    return {{"score": outputs[0]}}
""",
    )


def scorers_of(task: Task, bounds: Bounds = SMALL, most: int = 1) -> Scorers:
    log = task.folder.with_suffix(".log")
    return Scorers(lambda: Scorer(task.folder / "evaluator.py", log, bounds), most)


def starts(folder: Path) -> int:
    return len((folder / "starts").read_text().splitlines())


@pytest.mark.long
@pytest.mark.fault("Sick, not dead", "a scorer that hangs, grows or dies")
@pytest.mark.fault("Programs as weapons", "an output that is slow or large to score")
@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("outputs.append(bytes(1 << 30))", "took more than 256 MiB of memory"),
        ("while True: pass", "took more than 1 s"),
        ("time.sleep(60)", "took more than 1 s"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "crashed the scorer (SIGSEGV)"),
    ],
    ids=["memory", "processor", "clock", "crash"],
)
async def test_outputs_that_break_a_scorer_twice_are_the_candidates_fault(tmp_path: Path, does: str, why: str) -> None:
    turns = Counted()
    async with scorers_of(task_that(tmp_path, does)) as scorers:
        scored = await score_fairly(scorers, turns, Outputs(0, [b'"bomb"']))
        assert scored.score is None
        assert why in scored.invalid
        assert (turns.times, starts(tmp_path)) == (1, 2), "once more, in a fresh scorer, alone"
        assert (await score_fairly(scorers, turns, Outputs(0, [b"4"]))).score == 4.0


@pytest.mark.parametrize(
    "does",
    ["while not (here / 'again').exists(): (here / 'again').touch(); time.sleep(60)\noutputs[0] = 7"],
)
async def test_a_scorer_failure_that_does_not_repeat_alone_is_not_the_candidates_fault(
    tmp_path: Path, does: str
) -> None:
    turns = Turns()
    disturbed: list[OverBound] = []

    async def report(fault: OverBound) -> None:
        disturbed.append(fault)

    async with scorers_of(task_that(tmp_path, does)) as scorers:
        assert (await score_fairly(scorers, turns, Outputs(0, [b'"once"']), report)).score == 7.0
    assert [fault.kind for fault in disturbed] == ["scorer_timeout"]


@pytest.mark.fault("Sick, not dead", "a scorer that hangs, grows or dies")
@pytest.mark.parametrize("does", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(1)", "open('/no/such/data')"])
async def test_a_scorer_that_is_killed_or_fails_by_itself_is_not_the_candidates(tmp_path: Path, does: str) -> None:
    turns = Counted()
    async with scorers_of(task_that(tmp_path, does)) as scorers:
        with pytest.raises(InfrastructureFault):
            await score_fairly(scorers, turns, Outputs(0, [b'"any"']))
        assert turns.times == 0
        assert (await score_fairly(scorers, turns, Outputs(0, [b"4"]))).score == 4.0


@pytest.mark.skipif(cgroup.find() is None, reason="needs control groups that this user may make")
async def test_memory_that_other_processes_of_a_scorer_take_is_counted(tmp_path: Path) -> None:
    does = (
        "if os.fork() == 0:\n    import resource\n    resource.setrlimit(resource.RLIMIT_DATA, (-1, -1))\n"
        "    bytearray(1 << 30)\n    os._exit(0)\nif os.wait()[1]: raise OSError('it was killed')"
    )
    turns, patient = Turns(), Bounds(memory_mb=256, seconds=30.0)
    async with scorers_of(task_that(tmp_path, does), patient) as scorers:
        assert "256 MiB of memory" in (await score_fairly(scorers, turns, Outputs(0, [b'"family"']))).invalid


@pytest.mark.skipif(cgroup.find() is None, reason="needs control groups that this user may make")
async def test_a_scorer_has_a_control_group_with_its_limit_and_leaves_none(tmp_path: Path) -> None:
    task = make_task(tmp_path / "sum")
    scorer = Scorer(task.folder / "evaluator.py", tmp_path / "log", Bounds(memory_mb=300))
    async with scorer:
        group, process = scorer._group, scorer._process  # pyright: ignore[reportPrivateUsage]
        assert group is not None and process is not None
        assert group.memory.name in await anyio.Path(f"/proc/{process.pid}/cgroup").read_text()
        file = "memory.limit_in_bytes" if group.version == 1 else "memory.max"
        assert int(await anyio.Path(group.memory / file).read_text()) == 300 << 20
    settle()
    assert not any(folder.exists() for folder in group.folders)


def peak_mb(scorer: Scorer) -> float:
    process = scorer._process  # pyright: ignore[reportPrivateUsage]
    assert process is not None
    status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


async def bomb(task: Task, megabytes: int) -> tuple[ScorerResult, float]:
    """The evaluation of an output of so many MiB of `{},`, and the most memory that the scorer ever had, in MiB."""
    output = b"[" + b"{}," * (megabytes * (1 << 20) // 3) + b"{}]"
    async with Scorer(task.folder / "evaluator.py", task.folder.with_suffix(".log")) as scorer:
        return await scorer.score(Outputs(0, [output, b"1", b"1"])), peak_mb(scorer)


@pytest.mark.fault("Programs as weapons", "an output of more values than a scorer can hold")
async def test_an_output_of_many_empty_mappings_costs_little_more_memory_than_its_bytes(tmp_path: Path) -> None:
    scored, peak = await bomb(make_task(tmp_path / "sum"), 12)
    assert scored.invalid == "the output has more than 2000000 values"
    assert peak < 12 * 5 + 60


@pytest.mark.long
@pytest.mark.fault("Programs as weapons", "an output of more values than a scorer can hold")
async def test_240_megabytes_of_empty_mappings_are_refused_and_cost_no_gigabytes(tmp_path: Path) -> None:
    scored, peak = await bomb(make_task(tmp_path / "sum"), 240)
    assert scored.invalid == "the output has more than 2000000 values"
    assert peak < 240 * 5 + 60


@pytest.fixture
async def pipe(tmp_path: Path) -> AsyncGenerator[Path]:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    yield path


@pytest.mark.fault("Programs as weapons", "an output that is slow or large to score")
async def test_an_output_that_takes_long_does_not_keep_the_others_waiting(tmp_path: Path, pipe: Path) -> None:
    task = task_that(tmp_path, "outputs[0] = int((here / 'pipe').read_text())")
    turns, found = Turns(), list[float | None]()
    async with scorers_of(task, Bounds(memory_mb=1024), most=2) as scorers:

        async def slow() -> None:
            found.append((await score_fairly(scorers, turns, Outputs(0, [b'"slow"']))).score)

        async with anyio.create_task_group() as tg:
            tg.start_soon(slow)
            await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(50):
                found.append((await score_fairly(scorers, turns, Outputs(0, [b"1"]))).score)
            await anyio.Path(pipe).write_text("2")
    assert found == [1.0, 2.0]
    assert starts(tmp_path) == 2


DYING = "os.kill(os.getpid(), signal.SIGKILL)"
SAYS = "def f(instance):\n    return {!r}\n"


@pytest.mark.fault("Sick, not dead", "an evaluator that was edited while a scorer was away")
async def test_a_scorer_that_is_started_again_does_not_use_an_evaluator_that_was_edited(tmp_path: Path) -> None:
    task = task_that(tmp_path, DYING)
    tier = await pick_tier(False)
    async with open_evaluator(task, EvaluationConfig(retries=0), tier=tier, log=tmp_path / "log") as evaluator:
        assert (await scored(evaluator, SAYS.format(3), 0)).score == 3.0
        died = await scored(evaluator, SAYS.format("die"), 0)
        assert died.outcome == "infrastructure_error"
        assert signal.SIGKILL.name in died.detail
        path = task.folder / "evaluator.py"
        path.write_text(path.read_text().replace('"score": outputs[0]', '"score": 10 * outputs[0]'))
        with pytest.raises(UsageError, match=r"A file of task 'bounded' has changed.*Put it back"):
            await scored(evaluator, SAYS.format(4), 0)


@pytest.mark.long
@pytest.mark.fault("Programs as weapons", "an output that is slow or large to score")
async def test_an_oversized_output_is_the_candidates_fault_and_the_next_program_is_scored(tmp_path: Path) -> None:
    path = make_task(tmp_path / "sum").folder / "task.yaml"
    path.write_text(path.read_text().replace("output_mb: 1\n", "output_mb: 32\noutput_values: 1000000000\n"))
    task = load_task(str(path.parent))
    tier = await pick_tier(False)
    settings = EvaluationConfig(scorer_memory_mb=256, retries=0)
    async with open_evaluator(task, settings, tier=tier, log=tmp_path / "log") as evaluator:
        found = await scored(evaluator, "def f(instance):\n    return [{}] * (1 << 20) * 3\n", 0)
        assert (found.outcome, found.score) == ("invalid_score", None)
        assert "256 MiB of memory" in found.detail
        assert (await scored(evaluator, SAYS.format(2), 0)).score == 6.0
