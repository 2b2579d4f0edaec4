"""An end that the machine or another program may have caused counts only if it is repeated alone."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import psutil
import pytest

from pace_async.config import EvaluationConfig
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.local import LocalEvaluator, Turns
from pace_async.evaluate.sandbox import cgroup, leftovers
from pace_async.evaluate.sandbox.converse import Answers, Job
from pace_async.evaluate.sandbox.launch import CandidateRunner, launch
from pace_async.evaluate.sandbox.tiers import Bubblewrap, Limits, Rlimits, Tier
from pace_async.evaluate.sandbox.usage import Usage, measure, starved
from pace_async.evaluate.sandbox.verdict import Doubt, JobResult, doubt
from tests.doubles.evaluators import scored
from tests.evaluate.sandbox.tiers import BWRAP, SANDBOXES, Sandbox, run_program
from tests.support.evaluate_tasks import DOUBLE, make_task

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
needs_bwrap = pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed")
COLD: list[Any] = [
    pytest.param(Bubblewrap(BWRAP or ""), id="bubblewrap", marks=needs_bwrap),
    pytest.param(Rlimits(), id="rlimits"),
]
LATE = f"import time\ntime.sleep(60)\n{DOUBLE}"


@dataclass
class Watched:
    """A runner whose runs may be changed. `alone` says for each run whether a task had asked to run alone."""

    inner: CandidateRunner
    turns: Turns
    programs: list[str] = field(default_factory=list[str])
    timeouts: list[float] = field(default_factory=list[float])
    changes: Callable[[int, JobResult], JobResult] = lambda _, ended: ended
    meanwhile: Callable[[int], Coroutine[Any, Any, None]] | None = None
    alone: list[bool] = field(default_factory=list[bool])

    @property
    def hides_files(self) -> bool:
        return self.inner.hides_files

    async def run(self, job: Job, limits: Limits) -> JobResult:
        number = len(self.alone)
        self.alone.append(self.turns._held)  # pyright: ignore[reportPrivateUsage]
        if number < len(self.programs):
            job = replace(job, program=self.programs[number])
        if number < len(self.timeouts):
            limits = replace(limits, seconds=self.timeouts[number])
        try:
            async with anyio.create_task_group() as tg:
                if self.meanwhile is not None:
                    tg.start_soon(self.meanwhile, number)
                return self.changes(number, await self.inner.run(job, limits))
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        raise AssertionError("cancelled")


def watch(evaluator: LocalEvaluator, **options: Any) -> Watched:
    watched = Watched(evaluator.parts.runner, evaluator.turns, **options)
    evaluator.parts = replace(evaluator.parts, runner=cast("CandidateRunner", watched))
    return watched


async def killed_once(name: str, number: int) -> None:
    """Kill the process of this name, during the first launch."""
    with anyio.fail_after(30):
        while number == 0:
            found = [one for one in psutil.process_iter(["name"]) if one.info["name"] == name]
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in found:
                    process.kill()
                    return
            await anyio.wait_all_tasks_blocked()


def hanging(name: str) -> str:
    return (
        f"import ctypes, time\ndef f(instance):\n    ctypes.CDLL(None).prctl(15, {name.encode()})\n    time.sleep(60)\n"
    )


@pytest.mark.fault("Sandbox", "killed by somebody else")
@pytest.mark.parametrize("tier", COLD)
async def test_a_program_killed_from_outside_is_run_once_more_alone_and_that_counts(tier: Tier, tmp_path: Path) -> None:
    name = f"kill{os.getpid()}"
    async with open_evaluator(
        make_task(tmp_path / "sum"), EvaluationConfig(warm=False), tier=tier, log=tmp_path / "log"
    ) as evaluator:
        watched = watch(evaluator, programs=[hanging(name)], meanwhile=partial(killed_once, name))
        found = await scored(evaluator, DOUBLE, 1)
    assert (found.outcome, found.score, watched.alone) == ("ok", 12.0, [False, True])


@pytest.mark.fault("Sandbox", "killed by somebody else")
@pytest.mark.parametrize(
    ("tier", "body", "number"),
    [
        pytest.param(Bubblewrap(BWRAP or ""), "os.kill(os.getpid(), 9)", signal.SIGKILL, marks=needs_bwrap),
        pytest.param(Bubblewrap(BWRAP or ""), "os.kill(os.getpid(), 15)", signal.SIGTERM, marks=needs_bwrap),
        (Rlimits(), "resource.setrlimit(resource.RLIMIT_CPU, (0, 0))\n    while True: pass", signal.SIGKILL),
    ],
    ids=["kill", "terminate", "limit"],
)
async def test_a_program_that_kills_itself_twice_is_charged(
    tier: Tier, body: str, number: signal.Signals, tmp_path: Path
) -> None:
    async with open_evaluator(
        make_task(tmp_path / "sum"), EvaluationConfig(warm=False), tier=tier, log=tmp_path / "log"
    ) as evaluator:
        watched = watch(evaluator)
        found = await scored(evaluator, f"import os, resource\ndef f(instance):\n    {body}\n", 0)
    assert (found.outcome, watched.alone) == ("candidate_error", [False, True])
    assert found.detail == f"ended without a result ({number.name})"


@pytest.mark.fault("Sandbox", "segmentation fault")
@pytest.mark.parametrize("body", ["os.kill(os.getpid(), 11)", "os._exit(3)", "return len(bytearray(2 << 30))"])
async def test_a_program_that_ends_itself_is_not_run_again(body: str, tmp_path: Path) -> None:
    task = make_task(tmp_path / "sum")
    async with open_evaluator(task, EvaluationConfig(warm=False), tier=Rlimits(), log=tmp_path / "log") as evaluator:
        watched = watch(evaluator)
        found = await scored(evaluator, f"import os\ndef f(instance):\n    {body}\n", 0)
    assert watched.alone == [False]
    assert found.outcome in ("candidate_error", "out_of_memory")


@needs_bwrap
@pytest.mark.fault("Sandbox", "killed by somebody else")
async def test_a_sandbox_killed_from_outside_is_not_the_candidates_fault(tmp_path: Path) -> None:
    name = f"kill{os.getpid()}"

    async def outer(number: int) -> None:
        with anyio.fail_after(30):
            while number == 0:
                below = psutil.Process().children(recursive=True)
                if any(process.name() == name for process in below):
                    next(process for process in below if process.name() == "bwrap").kill()
                    return
                await anyio.wait_all_tasks_blocked()

    tier = Bubblewrap(BWRAP or "")
    task = make_task(tmp_path / "sum")
    async with open_evaluator(
        task, EvaluationConfig(warm=False, retries=1), tier=tier, log=tmp_path / "log"
    ) as evaluator:
        watched = watch(evaluator, programs=[hanging(name)], meanwhile=outer)
        found = await scored(evaluator, DOUBLE, 1)
    assert (found.outcome, found.score, watched.alone) == ("ok", 12.0, [False, False])


async def both_have(spinning: str, earlier: Collection[str], seconds: float) -> tuple[float, float]:
    """Processor time of the group of this name and of the one that is not among the `earlier` ones, once the latter has
    had `seconds`. The group of an earlier evaluation stays for a while after its end."""
    while True:
        had = {name: group.processor_s() or 0.0 for name, group in groups().items()}
        other = max((time for name, time in had.items() if name not in earlier), default=0.0)
        if other >= seconds:
            return had[spinning], other
        await anyio.sleep(0.01)


@pytest.mark.fault("Programs as weapons", "sixty spinning processes beside an honest neighbour")
@pytest.mark.parametrize(
    ("second", "limit", "outcome"), [(DOUBLE, 60.0, "ok"), (LATE, 3.0, "timeout")], ids=["well", "same"]
)
async def test_a_starved_program_is_run_once_more_alone_before_its_verdict(
    second: str, limit: float, outcome: str, tmp_path: Path
) -> None:
    def starve(number: int, ended: JobResult) -> JobResult:
        return replace(ended, usage=Usage(0.1, ended.seconds)) if ended.timed_out else ended

    settings = EvaluationConfig(warm=False, slots=1)
    task = make_task(tmp_path / "sum")
    async with open_evaluator(task, settings, tier=Rlimits(), log=tmp_path / "log") as evaluator:
        watched = watch(evaluator, programs=[LATE, second], timeouts=[3.0, limit], changes=starve)
        found = await scored(evaluator, DOUBLE, 1)
    assert (found.outcome, watched.alone) == (outcome, [False, True])


@pytest.mark.long
@pytest.mark.parametrize("body", ["time.sleep(60)", "while True: pass"], ids=["sleeps", "spins"])
async def test_a_program_that_had_its_share_or_did_not_need_it_is_not_run_again(body: str, tmp_path: Path) -> None:
    def quiet(number: int, ended: JobResult) -> JobResult:
        assert ended.usage is not None
        waited = 0.0 if "sleep" in body else ended.usage.waited_s  # of a machine that is busy only the spinner can tell
        used = ended.usage.processor_s if "sleep" in body else ended.seconds
        return replace(ended, usage=Usage(used, waited))

    task = make_task(tmp_path / "sum", timeout_s=2.0)
    async with open_evaluator(task, EvaluationConfig(warm=False), tier=Rlimits(), log=tmp_path / "log") as evaluator:
        watched = watch(evaluator, changes=quiet)
        found = await scored(evaluator, f"import time\ndef f(instance):\n    {body}\n", 0)
    assert (found.outcome, watched.alone) == ("timeout", [False])


@pytest.mark.parametrize(
    ("usage", "share", "expected"),
    [
        (Usage(4.0, 15.0), 1.0, True),
        (Usage(4.0, None), 1.0, True),
        (Usage(0.0, 0.1), 1.0, False),
        (Usage(11.0, 9.0), 1.0, False),
        (Usage(4.0, 15.0), 0.25, False),
        (Usage(2.0, 15.0), 0.25, True),
    ],
)
def test_starved_means_less_than_half_the_share_and_time_in_the_queue(
    usage: Usage, share: float, expected: bool
) -> None:
    assert starved(usage, 20.0, share) is expected


def ended(**changes: Any) -> JobResult:
    answers = Answers("n", 1, ready=True, loaded=True)
    seen = JobResult(answers, (), (), b"", b"", 0, False, False, False, None, False, False, 20.0)
    return replace(seen, **changes)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (ended(exit_code=-9), "killed"),
        (ended(exit_code=-15), "killed"),
        (ended(exit_code=-11), None),
        (ended(exit_code=-9, stopped=True, overflowed="standard output"), None),
        (ended(exit_code=-9, out_of_memory=True), None),
        (ended(exit_code=-9, out_of_time=True), None),
        (ended(exit_code=-9, stopped=True, timed_out=True, usage=Usage(1.0, 15.0)), "starved"),
        (ended(exit_code=-9, stopped=True, timed_out=True, usage=Usage(15.0, 1.0)), None),
        (ended(exit_code=-9, answers=Answers("n", 1)), None),
        (ended(exit_code=-9, answers=Answers("n", 0, ready=True)), None),
    ],
)
def test_only_an_unexplained_kill_and_starvation_are_repeated(seen: JobResult, expected: Doubt | None) -> None:
    assert doubt(seen, 1.0) == expected


@pytest.mark.parametrize(
    ("version", "files", "expected"),
    [
        (1, {"memory.oom_control": "oom_kill 1", "memory.failcnt": "3"}, True),
        (
            1,
            {"memory.oom_control": "oom_kill 1", "memory.failcnt": "0", "memory.max_usage_in_bytes": "104857600"},
            True,
        ),
        (
            1,
            {"memory.oom_control": "oom_kill 1", "memory.failcnt": "0", "memory.max_usage_in_bytes": "50000000"},
            False,
        ),
        (1, {"memory.oom_control": "oom_kill 0", "memory.failcnt": "3"}, False),
        (1, {"memory.oom_control": "under_oom 0", "memory.failcnt": "3"}, True),
        (2, {"memory.events": "oom 1\noom_kill 1"}, True),
        (2, {"memory.events": "oom 0\noom_kill 1"}, False),
        (2, {"memory.events": "oom 0\noom_kill 0"}, False),
        (2, {}, False),
    ],
)
def test_only_a_group_that_reached_its_own_limit_is_out_of_memory(
    version: int, files: dict[str, str], expected: bool, tmp_path: Path
) -> None:
    for name, text in {"memory.limit_in_bytes": "104857600", **files}.items():
        (tmp_path / name).write_text(text)
    assert cgroup.Group(tmp_path, tmp_path, None, None, version).out_of_memory() is expected


@pytest.mark.fault("Programs as weapons", "more processor time than is given, in many processes")
@pytest.mark.skipif(cgroup.find() is None, reason="needs control groups that this user may make")
@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_processor_time_is_limited_for_all_processes_of_a_program_together(sandbox: Sandbox) -> None:
    program = """
    import os
    def f(x):
        for _ in range(8):
            if os.fork() == 0:
                while True: pass
        for _ in range(8):
            os.wait()
        return "each ended at its own limit"
    """
    limits = Limits(seconds=60.0, memory_mb=256, output_bytes=1 << 20, processor_s=2)
    verdict, seen = await run_program(sandbox, program, limits=limits)
    assert (verdict.outcome, seen.timed_out, seen.out_of_time) == ("timeout", False, True)


SPINNING = """
import os
def f(x):
    for _ in range(24):
        if os.fork() == 0:
            try: os.setsid()
            except OSError: pass
            while True: pass
    os.wait()
"""
WORKING = "import time\ndef f(x):\n    while time.process_time() < 3.0: pass\n    return 1\n"


def counted() -> bool:
    """Whether groups share processors here, and their time is counted."""
    hierarchy = cgroup.find()
    return (
        hierarchy is not None
        and hierarchy.cpu is not None
        and (hierarchy.version == 2 or hierarchy.cpuacct is not None)
    )


def groups() -> dict[str, cgroup.Group]:
    """The groups of this process's evaluations."""
    where = cgroup.find()
    assert where is not None
    found: dict[str, cgroup.Group] = {}
    for name in (path.name for path in where.memory.glob(f"{leftovers.prefix()}*")):
        cpu, cpuacct = (one / name if one is not None else None for one in (where.cpu, where.cpuacct))
        found[name] = cgroup.Group(where.memory / name, where.pids / name, cpu, cpuacct, where.version)
    return found


@pytest.mark.long
@pytest.mark.fault("Programs as weapons", "sixty spinning processes beside an honest neighbour")
@pytest.mark.skipif(not counted(), reason="needs control groups that share processors")
@pytest.mark.parametrize("tier", COLD)
async def test_a_neighbour_with_many_processes_gets_no_more_of_a_processor_than_one_with_a_single_one(
    tier: Tier,
) -> None:
    """Both on one processor: the honest program works for a second, and the other's 24 processes together get about as
    much meanwhile, not 24 times as much. What both have got is read at two moments, because the start of a program
    takes as long as the machine lets it."""
    usual = os.sched_getaffinity(0)
    limits = Limits(seconds=100.0, memory_mb=256, output_bytes=1 << 20)
    os.sched_setaffinity(0, {min(usual)})
    first = last = (0.0, 0.0)
    complete: list[bool] = []

    async def work() -> None:
        complete.append((await launch(tier, Job(WORKING, "f", ["0"]), limits, ())).answers.complete)

    try:
        async with anyio.create_task_group() as tg:
            tg.start_soon(launch, tier, Job(SPINNING, "f", ["0"]), limits, ())
            with anyio.fail_after(60):
                while not (  # noqa: ASYNC110 (the kernel does not tell)
                    spinning := [name for name, group in groups().items() if len(group.members()) > 24]
                ):
                    await anyio.sleep(0.05)
            earlier = [name for name, group in groups().items() if group.processor_s()]
            async with anyio.create_task_group() as honest:
                honest.start_soon(work)
                with anyio.fail_after(60):
                    first, last = [await both_have(spinning[0], earlier, seconds) for seconds in (0.3, 1.3)]
            tg.cancel_scope.cancel()
    finally:
        os.sched_setaffinity(0, usual)
    spun, worked = last[0] - first[0], last[1] - first[1]
    assert complete == [True]
    assert spun < 5 * worked


@pytest.mark.long
async def test_waiting_for_a_processor_is_distinguished_from_sleeping() -> None:
    """Two that spin on one processor: one of them waits about as long as it works. One that sleeps does neither."""
    spin = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nprint(flush=True)\nwhile True: pass"
    commands = [[sys.executable, "-c", spin], [sys.executable, "-c", spin], ["sleep", "60"]]
    async with contextlib.AsyncExitStack() as stack:
        processes = [await stack.enter_async_context(await anyio.open_process(command)) for command in commands]
        try:
            for process in processes[:2]:
                assert process.stdout is not None
                await process.stdout.receive()
            with anyio.fail_after(60):
                while (spun := measure(processes[0].pid, None)).processor_s < 0.5:  # noqa: ASYNC110
                    await anyio.sleep(0.05)
            slept = measure(processes[2].pid, None)
        finally:
            for process in processes:
                process.kill()
    assert slept.processor_s < 0.1
    if spun.waited_s is not None and slept.waited_s is not None:
        assert spun.waited_s > 0.1
        assert slept.waited_s < spun.waited_s
