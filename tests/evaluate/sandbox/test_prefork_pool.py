"""Drivers that are forked ahead: ready when they are needed, for one program each, and nothing of them is left."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

import anyio
import psutil
import pytest

from pace_async.config import EvaluationConfig
from pace_async.evaluate.assemble import GROUPS_S, groups_removed, open_evaluator
from pace_async.evaluate.sandbox import cgroup, leftovers
from pace_async.evaluate.sandbox.converse import Job
from pace_async.evaluate.sandbox.launch import launch
from pace_async.evaluate.sandbox.tiers import Bubblewrap
from pace_async.evaluate.sandbox.verdict import JobResult, judge
from pace_async.evaluate.sandbox.warm import DRIVERS_AHEAD, WarmParent
from pace_async.simulate.virtual import run_virtually
from tests.doubles.evaluators import scored
from tests.evaluate.sandbox.tiers import BWRAP, LIMITS
from tests.support.evaluate_tasks import DOUBLE, make_task

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux" or BWRAP is None, reason="a warm parent needs bubblewrap"),
]
TIER = Bubblewrap(BWRAP or "")
IDENTITY = Job("def f(x):\n    return x", "f", ["7"])
CHAIN = 2
"""Processes between the parent's first one and the drivers that it forked."""


def forked(parent: WarmParent) -> list[psutil.Process]:
    """Everything that it forked and that lives."""
    return psutil.Process(parent.pid).children(recursive=True)[CHAIN:]


def group_of(process: psutil.Process) -> str:
    """The control groups that it is in, as the kernel writes them."""
    return Path(f"/proc/{process.pid}/cgroup").read_text()


async def settled(parent: WarmParent, count: int) -> list[psutil.Process]:
    """What it forked, once that many processes are there."""
    with anyio.fail_after(10):
        while len(found := forked(parent)) != count:
            await anyio.wait_all_tasks_blocked()
    return found


async def outputs(parent: WarmParent, work: Job = IDENTITY) -> JobResult:
    """One launch that goes well."""
    ended = await launch(TIER, work, LIMITS, (), parent)
    assert judge(ended).outcome == "ok", ended.stderr.decode()
    return ended


async def test_the_next_candidate_runs_in_a_driver_that_was_there_before_it(parent: WarmParent) -> None:
    await outputs(parent)
    ahead = await settled(parent, DRIVERS_AHEAD)
    slow = Job("import time\ndef f(x):\n    time.sleep(0.5)\n    return x", "f", ["7"])
    async with anyio.create_task_group() as tg:
        tg.start_soon(outputs, parent, slow)
        now = await settled(parent, DRIVERS_AHEAD + 1)
        assert set(ahead) <= set(now)
    left = await settled(parent, DRIVERS_AHEAD)
    assert len(set(ahead) - set(left)) == 1, "the candidate's went with it"


async def test_more_candidates_at_once_than_drivers_ahead(parent: WarmParent) -> None:
    ended: list[JobResult] = []

    async def one() -> None:
        ended.append(await outputs(parent))

    async with anyio.create_task_group() as tg:
        for _ in range(4 * DRIVERS_AHEAD):
            tg.start_soon(one)
    assert [found.answers.outputs for found in ended] == [ended[0].answers.outputs] * (4 * DRIVERS_AHEAD)
    assert len(await settled(parent, DRIVERS_AHEAD)) == DRIVERS_AHEAD


async def test_a_driver_waits_inside_its_control_group_and_one_with_another_limit_is_not_used(
    parent: WarmParent,
) -> None:
    await outputs(parent)
    ahead = await settled(parent, DRIVERS_AHEAD)
    if cgroup.find() is not None:
        with anyio.fail_after(10):
            while not all("pace-" in group_of(process) for process in ahead):
                await anyio.wait_all_tasks_blocked()  # a driver joins its group itself, after it was forked
        assert len({group_of(process) for process in ahead}) == DRIVERS_AHEAD, "each in its own"
    assert (await launch(TIER, IDENTITY, replace(LIMITS, memory_mb=300), (), parent)).exit_code == 0
    other = await settled(parent, DRIVERS_AHEAD)
    assert not set(other) & set(ahead)


async def test_nothing_is_left_once_the_parent_is_closed(tmp_path: Path) -> None:
    before = set(psutil.Process().children(recursive=True))
    async with open_evaluator(
        make_task(tmp_path / "sum"), EvaluationConfig(), tier=TIER, log=tmp_path / "log"
    ) as evaluator:
        assert (await scored(evaluator, DOUBLE, 0)).outcome == "ok"
        mine = set(psutil.Process().children(recursive=True)) - before
        assert len(mine) >= CHAIN
    assert psutil.wait_procs(mine, timeout=5)[1] == []
    hierarchy = cgroup.find()
    folders = hierarchy.folders if hierarchy else ()
    assert [path for folder in folders for path in folder.glob(f"{leftovers.prefix()}*")] == []


@pytest.mark.parametrize(
    ("gone_s", "most_s"), [(0.0, 0.0), (9.0, 9.5), (1e9, GROUPS_S)], ids=["at once", "late", "never"]
)
def test_a_group_with_a_slowly_ending_process_is_waited_for_until_a_deadline(
    gone_s: float, most_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "all_removed", lambda: anyio.current_time() >= gone_s)

    async def closed() -> float:
        await groups_removed()
        return anyio.current_time()

    assert min(gone_s, GROUPS_S) <= run_virtually(closed) <= most_s


async def test_a_driver_that_died_before_its_job_does_not_affect_the_candidate(tmp_path: Path) -> None:
    said: list[str] = []

    async def say(kind: str, text: str) -> None:
        said.append(text)

    async with open_evaluator(
        make_task(tmp_path / "sum"), EvaluationConfig(), tier=TIER, log=tmp_path / "log", say=say
    ) as evaluator:
        parent = cast("WarmParent", evaluator.parts.runner._warm)  # pyright: ignore[reportPrivateUsage]
        for process in await settled(parent, DRIVERS_AHEAD):
            process.kill()
        assert (await scored(evaluator, DOUBLE, 0)).outcome == "ok"
    assert len(said) == 1
    assert said[0].startswith("candidates are started cold from here on: ")
