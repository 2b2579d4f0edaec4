"""Rounds of random faults on evaluations of a Ray cluster: python scripts/checks/cluster_rounds.py --rounds 50

Each round evaluates programs that sleep on nodes of one machine, and meanwhile kills a node, an actor or a candidate,
or stops a node for longer than it may be silent. Then it looks: no evaluation is lost, none has two accepted attempts,
attempts are numbered through, and only what a program did itself has a score. A program that was killed twice may be
charged, as on one machine. The draws follow from the seed of the round.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from pace_async.config import EvaluationConfig
from pace_async.evaluate.base import Evaluation, EvaluationId, EvaluationRequest, Needs, evaluate
from pace_async.evaluate.on_ray.cluster import connected
from pace_async.evaluate.on_ray.evaluator import RayEvaluator
from pace_async.evaluate.on_ray.fleet import Fleet
from pace_async.evaluate.on_ray.placed import SlotDemand
from pace_async.evaluate.on_ray.wire import Order, files_by_value
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.events import EvaluationAttempted
from pace_async.task import Task, load_task
from scripts.benchmarks.ray_machines import ClusterEnded, Machines, cluster_of

SLOTS, CANDIDATES, FAULTS = 4, 10, 3
SILENCE_S = 6.0
START_S = 300.0
PROGRAM = """# EVOLVE-BLOCK-START
import time


def f(instance):
    time.sleep({seconds})
    return {lease}
# EVOLVE-BLOCK-END
"""
TASK = """name: rounds
background: A program returns a number.
coding_requirements: f(instance) returns a number.
direction: maximize
bounds: {lower: 0, upper: 1000000}
program: initial.py
evaluator: evaluator.py
entry: f
timeout_s: 120
memory_mb: 512
deterministic: false
"""
EVALUATOR = """def instances(seed):
    return [seed]


def score(instances, outputs):
    return {"score": float(outputs[0])}
"""
KINDS = ("actor", "candidate", "node", "stop")
WARM_PARENT, INSTEAD, NOTHING = "warm parent", "actor in place of a candidate", "nothing"
"""What is hit where a candidate was drawn: the parent of the candidates if they are forked, the actor if it has no
sandbox, and nothing if it has just ended."""


@dataclass
class Round:
    """What happened. `faults` are what was hit. `wrong` are broken invariants, one sentence each."""

    seed: int
    done: dict[int, list[Evaluation]] = field(default_factory=dict[int, list[Evaluation]])
    faults: list[str] = field(default_factory=list[str])
    said: list[str] = field(default_factory=list[str])
    wrong: list[str] = field(default_factory=list[str])

    @property
    def lost(self) -> int:
        """Attempts that the machines failed."""
        attempts = [attempt for all_of in self.done.values() for found in all_of for attempt in found.attempts]
        return sum(attempt.outcome == "infrastructure_error" for attempt in attempts)

    def judge(self) -> None:
        """Find broken invariants."""
        for lease in range(1, CANDIDATES + 1):
            results = self.done.get(lease, [])
            attempts = [attempt for found in results for attempt in found.attempts]
            accepted = [attempt for attempt in attempts if attempt.accepted]
            if not results or len(accepted) != 1:
                self.wrong.append(f"lease {lease} has {len(accepted)} accepted attempts")
            if [attempt.attempt for attempt in attempts] != list(range(1, len(attempts) + 1)):
                self.wrong.append(f"lease {lease}: its attempts are not numbered through")
            if any(attempt.accepted and attempt.outcome == "infrastructure_error" for attempt in attempts):
                self.wrong.append(f"lease {lease} was rewarded for a failure of the machine")
            ended = [(found.outcome, found.score) for found in results[-1:]]
            if ended and ended != [("ok", float(lease))] and not self._was_killed_twice(attempts):
                self.wrong.append(f"lease {lease} ended as {results[-1].outcome} ({results[-1].detail})")

    def _was_killed_twice(self, attempts: Sequence[EvaluationAttempted]) -> bool:
        """Whether a program and its second run, alone, may both have been killed here. It is charged with that end."""
        ends = [attempt.outcome for attempt in attempts[-2:]]
        return ends == ["candidate_error"] * 2 and self.faults.count("candidate") > 1


async def one_round(machines: Machines, folder: Path, seed: int) -> Round:
    """One round on a cluster with at least two nodes, which it leaves so."""
    random_faults, found = random.Random(seed), Round(seed)

    async def say(kind: str, detail: str) -> None:
        found.said.append(kind)

    task = _task(folder)
    own = EvaluationConfig(slots=SLOTS, retries=1, ray_silence_s=SILENCE_S, warm=bool(seed % 2))
    order = Order.of(task, own, await pick_tier(False), {})
    async with connected(machines.address, START_S, {}) as cluster:
        files = await cluster.put(files_by_value(task))
        fleet = Fleet(cluster, order, files, SlotDemand(f"round{seed}", SLOTS, Needs(), START_S, SILENCE_S, say))
        async with fleet, RayEvaluator(fleet, own.retries) as evaluator, anyio.create_task_group() as group:
            for lease in range(1, CANDIDATES + 1):
                group.start_soon(_until_scored, evaluator, task, random_faults.uniform(0.5, 3.0), lease, found)
            for _ in range(FAULTS):
                await anyio.sleep(random_faults.uniform(0.2, 2.0))
                await _fault(machines, fleet, random_faults, found)
    found.judge()
    return found


def _task(folder: Path) -> Task:
    folder.mkdir(parents=True)
    first = PROGRAM.format(seconds=0, lease=0)
    for name, text in {"task.yaml": TASK, "evaluator.py": EVALUATOR, "initial.py": first}.items():
        (folder / name).write_text(text)
    return load_task(str(folder))


async def _until_scored(evaluator: RayEvaluator, task: Task, seconds: float, lease: int, found: Round) -> None:
    """Evaluate as a run does: after a failure of the machines again, as the next attempt."""
    results = found.done.setdefault(lease, [])
    request = EvaluationRequest.of(
        task.spec, EvaluationId("rounds", lease), PROGRAM.format(seconds=seconds, lease=lease), 0
    )
    while not results or results[-1].outcome == "infrastructure_error":
        made = sum(len(one.attempts) for one in results)
        results.append(await evaluate(evaluator, replace(request, id=replace(request.id, attempt=made + 1))))


async def _fault(machines: Machines, fleet: Fleet, draws: random.Random, found: Round) -> None:
    kind, others = draws.choice(KINDS), machines.nodes[1:]
    hit = kind
    living = [placed.ready.pid for placed in fleet.living]
    if kind == "node":
        await anyio.to_thread.run_sync(machines.kill, draws.choice(others))
        await anyio.to_thread.run_sync(machines.add, SLOTS)
    elif kind == "stop":
        node = draws.choice(others)
        await anyio.to_thread.run_sync(lambda: machines.signal(node, stop=True))
        await anyio.sleep(1.5 * SILENCE_S)
        await anyio.to_thread.run_sync(lambda: machines.signal(node, stop=False))
    else:
        hit = _killed(kind, draws.choice(living)) if living else NOTHING
    found.faults.append(hit)


def _killed(kind: str, actor: int) -> str:
    """Kill an actor, or its newest sandbox. Returns what was killed."""
    sandbox = _newest_sandbox(actor) if kind == "candidate" else None
    try:
        command = Path(f"/proc/{sandbox or actor}/cmdline").read_bytes()
        os.kill(sandbox or actor, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        return NOTHING
    if kind == "candidate" and sandbox is None:
        return INSTEAD
    return WARM_PARENT if sandbox is not None and b"inside.warm" in command else kind


def _newest_sandbox(actor: int) -> int | None:
    """The process of the newest sandbox below an actor."""
    found, newest = [actor], None
    for parent in found:
        with suppress(OSError):
            for thread in Path(f"/proc/{parent}/task").iterdir():  # a thread of an actor starts its sandboxes
                found += [int(one) for one in (thread / "children").read_text().split()]
            newest = parent if Path(f"/proc/{parent}/comm").read_text().strip() == "bwrap" else newest
    return newest


async def rounds(count: int, first: int) -> list[Round]:
    """So many rounds, printed as they end. A round whose cluster ends by itself is broken off, and is not among them.
    The next one has another cluster."""
    made, seeds = list[Round](), list(range(first, first + count))
    with tempfile.TemporaryDirectory() as folder:
        while seeds:
            with cluster_of(1, SLOTS, SLOTS) as machines:
                while seeds:
                    seed, began = seeds.pop(0), time.perf_counter()
                    found = await _unless_ended(machines, Path(folder) / str(seed), seed)
                    if found is None:
                        break
                    made.append(found)
                    print(_in_words(found, time.perf_counter() - began), flush=True)
    return made


async def _unless_ended(machines: Machines, folder: Path, seed: int) -> Round | None:
    """One round, or None if its cluster has ended."""
    try:
        return await one_round(machines, folder, seed)
    except* ClusterEnded as ended:
        print(f"round {seed} is broken off: {ended.exceptions[0]}", flush=True)
    return None


def _in_words(found: Round, seconds: float) -> str:
    return (
        f"round {found.seed}: {', '.join(found.faults)}; {found.lost} attempts lost, {len(found.done)} of "
        f"{CANDIDATES} scored, {found.said.count('late_result')} late, {seconds:.0f} s"
        + "".join(f"\n  WRONG: {one}" for one in found.wrong)
    )


def main() -> None:
    """Exit code 1 if an invariant was broken, or a round was broken off."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    given = parser.parse_args()
    made = anyio.run(rounds, given.rounds, given.seed)
    wrong = sum(len(one.wrong) for one in made)
    hits = Counter(fault for one in made for fault in one.faults)
    print(", ".join(f"{hits[hit]} {hit}" for hit in (*KINDS, WARM_PARENT, INSTEAD, NOTHING)))
    print(
        f"{len(made)} rounds of {given.rounds}, {sum(one.lost for one in made)} attempts lost and repeated, "
        f"{wrong} invariants broken"
    )
    sys.exit(1 if wrong or len(made) < given.rounds else 0)


if __name__ == "__main__":
    main()
