"""Evaluations on a Ray cluster that wait until a test lets them go."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from pace_async.config import EvaluationConfig
from pace_async.evaluate.base import Evaluation, EvaluationRequest, Needs
from pace_async.evaluate.on_ray.cluster import connected
from pace_async.evaluate.on_ray.evaluator import RayEvaluator
from pace_async.evaluate.on_ray.fleet import Fleet
from pace_async.evaluate.on_ray.placed import PlacedActor, SlotDemand
from pace_async.evaluate.on_ray.wire import Order, files_by_value
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.task import Task
from tests.support.evaluate_tasks import make_task
from tests.support.ray_nodes import RayNodes

DEADLINE_S = 120.0
PROGRAM = "def f(instance):\n    return 7\n"
HELD = """
import os, pathlib
def instances(seed):
    return [seed]
def score(instances, outputs):
    with open({begins!r}, "a") as begins:
        begins.write("begun\\n")
    if not pathlib.Path({go!r}).exists():
        with open({held!r}, "r+b", buffering=0) as held, open({began!r}, "r+b", buffering=0) as began:
            began.write(b"%d\\n" % os.getppid())
            held.read(1)
    return {{"score": outputs[0]}}
"""
"""Says which process it is a child of, and waits until it is killed or let go, as long as there is no file `go`."""


@dataclass
class Opened:
    """An evaluator, and the pipes through which its scorers report that they wait."""

    evaluator: RayEvaluator
    folder: Path
    said: list[tuple[str, str]]
    news: dict[str, anyio.Event] = field(default_factory=dict[str, anyio.Event])
    paused: dict[str, anyio.Event] = field(default_factory=dict[str, anyio.Event])
    """Whoever says something of such a kind waits until its event is set."""

    async def begun(self) -> PlacedActor:
        """Wait until an evaluation is held, and return its actor."""
        with anyio.fail_after(DEADLINE_S):
            pid = await anyio.to_thread.run_sync(self._told, abandon_on_cancel=True)
        return next(placed for placed in self.evaluator.fleet.living if placed.ready.pid == pid)

    def _told(self) -> int:
        """The next of the lines that held evaluations have written. They keep the pipe open, so no line is lost."""
        line = b""
        with (self.folder / "began").open("r+b", buffering=0) as began:
            while not line.endswith(b"\n"):
                line += began.read(1)
        return int(line)

    def let_go(self) -> None:
        """What begins from now on is not held."""
        (self.folder / "go").touch()

    def let_held_go(self) -> None:
        """One that is held goes on. It has opened the pipe before it said that it waits, so the byte is not lost, and
        one of several takes it."""
        with (self.folder / "held").open("r+b", buffering=0) as held:
            held.write(b".")

    def begins(self) -> int:
        """How often a program was scored."""
        return len((self.folder / "begins").read_text().splitlines())

    async def heard(self, kind: str) -> str:
        """Wait until something of this kind is said, and return what."""
        with anyio.fail_after(DEADLINE_S):
            while not (found := [detail for said, detail in self.said if said == kind]):
                await self.news.setdefault(kind, anyio.Event()).wait()
        return found[0]


def held_task(folder: Path) -> Task:
    """A task whose evaluations are held. The same again for the same folder."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {name: str(folder / name) for name in ("go", "began", "held", "begins")}
    for pipe in ("began", "held"):
        if not (folder / pipe).exists():
            os.mkfifo(names[pipe])
    return make_task(folder / "task", HELD.format(**names), deterministic=False)


@asynccontextmanager
async def opened(
    cluster: RayNodes,
    folder: Path,
    *,
    slots: int = 2,
    run: str = "test",
    outlives: bool = False,
    evaluation: EvaluationConfig | None = None,
) -> AsyncGenerator[Opened]:
    """An evaluator of the cluster, and a task whose evaluations are held."""
    task, said = held_task(folder), list[tuple[str, str]]()
    news, paused = dict[str, anyio.Event](), dict[str, anyio.Event]()

    async def say(kind: str, detail: str) -> None:
        said.append((kind, detail))
        if kind in news:
            news[kind].set()
        if kind in paused:
            await paused[kind].wait()

    own = evaluation or EvaluationConfig(warm=False, retries=1)
    order = Order.of(task, own, await pick_tier(False), {})
    async with connected(cluster.address, DEADLINE_S, {}, folder / "ray.log") as connection:
        wanted = SlotDemand(run, slots, Needs(), DEADLINE_S, own.ray_silence_s, say, folder / "log", outlives=outlives)
        wanted = replace(wanted, scales=own.ray_scales)
        fleet = Fleet(connection, order, await connection.put(files_by_value(task)), wanted)
        async with fleet, RayEvaluator(fleet, 1) as evaluator:
            yield Opened(evaluator, folder, said, news, paused)


async def outcomes(opened: Opened, asked: EvaluationRequest) -> tuple[Evaluation, list[tuple[int, str, bool]]]:
    """An evaluation, and its attempts: their numbers, how they ended, and whether they were accepted."""
    with anyio.fail_after(DEADLINE_S):
        found = await opened.evaluator.result(asked.id)
    return found, [(attempt.attempt, attempt.outcome, attempt.accepted) for attempt in found.attempts]


async def process_ended(pid: int) -> None:
    """Wait until a process that is no child of ours has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with anyio.fail_after(DEADLINE_S):
            await anyio.wait_readable(descriptor)
    finally:
        os.close(descriptor)
