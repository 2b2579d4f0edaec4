"""A program with 62 spinning processes beside an honest one that needs 4.8 s of processor time within 20 s.

    python scripts/checks/starved_neighbour.py  # exit code 1 where the honest program is not scored

Both are candidates of one evaluator with two slots, in the best tier of this machine and in control groups where they
can be made. The honest program is first scored by itself. Each attempt is printed: its time and its result.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

import anyio

from pace_async.config import EvaluationConfig
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import Evaluation, EvaluationId, EvaluationRequest, Evaluator, Limits, evaluate
from pace_async.evaluate.sandbox import cgroup
from pace_async.task import load_task

EVALUATOR = """
def instances(seed):
    return [{"x": seed}]

def score(instances, outputs):
    return {"score": float(outputs[0])}
"""
HONEST = """
import time
def f(instance):
    while time.process_time() < SECONDS:
        pass
    return 1.0
"""
SPINNING = """
import os
def f(instance):
    for _ in range(PROCESSES):
        if os.fork() == 0:
            while True:
                pass
    os.wait()
"""


def task_folder(folder: Path, timeout_s: float) -> Path:
    """A task that gives one point for an answer in time."""
    (folder / "task.yaml").write_text(
        "name: neighbours\nbackground: One number.\ncoding_requirements: Return 1.\ndirection: maximize\n"
        f"bounds: {{lower: 0, upper: 1}}\nentry: f\ntimeout_s: {timeout_s}\nmemory_mb: 512\noutput_mb: 1\n"
        "deterministic: true\n"
    )
    (folder / "evaluator.py").write_text(EVALUATOR)
    (folder / "initial.py").write_text("# EVOLVE-BLOCK-START\ndef f(instance):\n    return 1.0\n# EVOLVE-BLOCK-END\n")
    return folder


async def ended(evaluator: Evaluator, name: str, lease: int, program: str, limits: Limits) -> Evaluation:
    """The program's evaluation, printed with its attempts."""
    found = await evaluate(evaluator, EvaluationRequest(EvaluationId("neighbours", lease), program, lease, limits))
    print(f"{name}: {found.outcome}, score {found.score}, {found.detail}")
    for one in found.attempts:
        waited = f"after {one.queue_seconds:.1f} s in the queue" if one.queue_seconds else "at once"
        print(f"    attempt {one.attempt}: {one.seconds:.1f} s, {waited}: {one.outcome} {one.detail}", flush=True)
    return found


async def trial(processes: int, seconds: float, timeout_s: float) -> int:
    """0 where the honest program is scored beside its neighbour."""
    honest, spinning = HONEST.replace("SECONDS", str(seconds)), SPINNING.replace("PROCESSES", str(processes))
    hierarchy = cgroup.find()
    groups = "none" if hierarchy is None else f"version {hierarchy.version}"
    print(f"control groups: {groups}, {os.cpu_count()} processors")
    print(f"load of the last minute: {os.getloadavg()[0]:.1f}")
    outcomes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="pace-neighbour-") as folder:
        task = load_task(str(task_folder(Path(folder), timeout_s)))
        limits = Limits.of(task.spec)
        async with open_evaluator(task, EvaluationConfig(slots=2)) as evaluator:
            await ended(evaluator, "honest, by itself", 1, honest, limits)
            async with anyio.create_task_group() as tg:
                tg.start_soon(ended, evaluator, f"{processes} spinning processes", 2, spinning, limits)
                await anyio.sleep(1.0)
                outcomes.append(
                    (await ended(evaluator, "honest, beside them", 3, honest + "# again\n", limits)).outcome
                )
    return int(outcomes != ["ok"])


def main() -> int:
    """Run it once."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--processes", type=int, default=62)
    parser.add_argument("--seconds", type=float, default=4.8, help="of processor time, that the honest program needs")
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds of wall clock for each program")
    chosen = parser.parse_args()
    return anyio.run(trial, chosen.processes, chosen.seconds, chosen.timeout)


if __name__ == "__main__":
    sys.exit(main())
