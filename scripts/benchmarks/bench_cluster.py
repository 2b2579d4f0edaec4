"""What evaluations on Ray cost: python scripts/benchmarks/bench_cluster.py [--candidates N] [--sleep S] [--only seam]

Three measurements on one machine, each printed as it ends:
1. The seam: the time of one evaluation after another, here and on a node, of the same program, in turn.
2. Nodes: how much more two nodes of four slots do than one in the same time, with evaluations that sleep.
3. Waiting: 1,000 requests that wait for slots: memory of this process, and the longest turn of its event loop.
"""

import argparse
import gc
import os
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import anyio

from pace_async.config import EvaluationConfig
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import EvaluationId, EvaluationRequest, Evaluator
from pace_async.evaluate.base import evaluate as evaluated
from pace_async.evaluate.on_ray.evaluator import open_ray_evaluator
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.runtime.run.loop_turns import TimedLoop, turns_here
from pace_async.task import Task, load_task
from scripts.benchmarks.ray_machines import Machines, cluster_of

SLOTS = 4
WAITING = 1000
TASK = """name: sleeping
background: A program returns a number.
coding_requirements: f(instance) returns a number.
direction: maximize
bounds: {lower: 0, upper: 10}
program: initial.py
evaluator: evaluator.py
entry: f
timeout_s: 60
memory_mb: 512
deterministic: false
"""
EVALUATOR = """import time


def instances(seed):
    return [seed]


def score(instances, outputs):
    time.sleep(%s)
    return {"score": float(outputs[0])}
"""
PROGRAM = "# EVOLVE-BLOCK-START\ndef f(instance):\n    return 7\n# EVOLVE-BLOCK-END\n"
_leases = count(1)


def sleeping_task(folder: Path, seconds: float) -> Task:
    """A task whose evaluations sleep for so long."""
    folder.mkdir(parents=True)
    for name, text in {"task.yaml": TASK, "evaluator.py": EVALUATOR % seconds, "initial.py": PROGRAM}.items():
        (folder / name).write_text(text)
    return load_task(str(folder))


@asynccontextmanager
async def on_nodes(task: Task, machines: Machines, slots: int) -> AsyncGenerator[Evaluator]:
    """The evaluator of the cluster."""
    evaluation = EvaluationConfig(slots=slots, scorers=slots, ray_address=machines.address, ray_timeout_s=300.0)
    async with open_ray_evaluator(task, evaluation, tier=await pick_tier(False)) as evaluator:
        yield evaluator


def request(task: Task) -> EvaluationRequest:
    """A request with an identity of its own."""
    return EvaluationRequest.of(task.spec, EvaluationId("bench", next(_leases)), PROGRAM, 0)


async def timed(evaluator: Evaluator, task: Task) -> tuple[float, float]:
    """Seconds of wall clock and of this process's processor time for one evaluation."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = await evaluated(evaluator, request(task))
    assert found.score == 7, found
    return time.perf_counter() - wall, time.process_time() - cpu


async def seam(folder: Path, machines: Machines, candidates: int) -> None:
    """The two evaluators take turns, so that both meet the same load."""
    task = sleeping_task(folder / "seam", 0)
    here, there = list[tuple[float, float]](), list[tuple[float, float]]()
    own = EvaluationConfig(slots=SLOTS)
    async with open_evaluator(task, own, tier=await pick_tier(False)) as local, on_nodes(task, machines, SLOTS) as ray:
        for evaluator in (local, ray):
            await timed(evaluator, task)
        for _ in range(candidates):
            here.append(await timed(local, task))
            there.append(await timed(ray, task))
    names = ("wall clock", "processor time of this process")
    for name, own_s, ray_s in zip(names, zip(*here, strict=True), zip(*there, strict=True), strict=True):
        more = 1000 * (statistics.median(ray_s) - statistics.median(own_s))
        print(
            f"seam, {name}: {1000 * statistics.median(own_s):.1f} ms here, {1000 * statistics.median(ray_s):.1f} ms on "
            f"a node, {more:+.1f} ms a candidate (medians of {candidates})",
            flush=True,
        )


async def nodes(folder: Path, machines: Machines, seconds: float, candidates: int) -> None:
    """The first node has SLOTS slots, and the two have twice as many."""
    task = sleeping_task(folder / "nodes", seconds)
    took: list[float] = []
    for slots in (SLOTS, 2 * SLOTS):
        async with on_nodes(task, machines, slots) as ray:
            if slots == SLOTS:
                machines.add(SLOTS)  # only after the first evaluator has taken its slots
            async with anyio.create_task_group() as warm:
                for _ in range(slots):
                    warm.start_soon(evaluated, ray, request(task))
            began = time.perf_counter()
            async with anyio.create_task_group() as group:
                for _ in range(candidates):
                    group.start_soon(evaluated, ray, request(task))
            took.append(time.perf_counter() - began)
    ratio = took[0] / took[1]
    print(
        f"nodes: {candidates} evaluations of {seconds:g} s: {took[0]:.1f} s on one, {took[1]:.1f} s on two, "
        f"{ratio:.2f}x"
    )


def resident_mb() -> float:
    """Memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


async def waiting(folder: Path, machines: Machines) -> None:
    """All requests are submitted at once, and each sleeps for a moment."""
    task, turns = sleeping_task(folder / "waiting", 0), turns_here()
    assert turns is not None
    async with on_nodes(task, machines, SLOTS) as ray:
        await timed(ray, task)
        before = resident_mb()
        turns.forget()
        asked = [replace(request(task)) for _ in range(WAITING)]
        for one in asked:
            await ray.submit(one)
        most = resident_mb()
        for number, one in enumerate(asked):
            await ray.result(one.id)
            if number % 100 == 0:
                most = max(most, resident_mb())
        after = resident_mb()
    print(
        f"waiting: {WAITING} requests on {SLOTS} slots: {before:.0f} MiB before, {most:.0f} at most, {after:.0f} "
        f"after; "
        f"longest turn {1000 * turns.longest_wall:.0f} ms of wall clock, {1000 * turns.longest_cpu:.0f} ms of processor"
    )


async def main(candidates: int, seconds: float, only: str | None) -> None:
    """All three, or one."""
    load = os.getloadavg()[0]
    print(f"{len(os.sched_getaffinity(0))} cores, load {load:.1f} at the beginning")
    with tempfile.TemporaryDirectory() as folder, cluster_of(SLOTS) as machines:
        if only in (None, "seam"):
            await seam(Path(folder), machines, candidates)
        if only in (None, "waiting"):
            await waiting(Path(folder), machines)
        if only in (None, "nodes"):
            await nodes(Path(folder), machines, seconds, 4 * SLOTS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=40)
    parser.add_argument("--sleep", type=float, default=5.0)
    parser.add_argument("--only", choices=["seam", "waiting", "nodes"])
    given = parser.parse_args()
    anyio.run(main, given.candidates, given.sleep, given.only, backend_options={"loop_factory": TimedLoop})
