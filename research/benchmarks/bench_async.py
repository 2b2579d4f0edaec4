"""Measures the gain of asynchrony: real runs against `--sync`, beside the prediction of `pace simulate`.

    python research/benchmarks/bench_async.py  # resumable: finished runs are not run again
    python research/benchmarks/bench_async.py --report-only

Engine, learner, publisher, sandbox and database are those of every run. The evaluated program first sleeps for a time
that depends on its settings (lognormal, cut off). It stands for a long evaluation on another machine. New bests are not
confirmed on fresh instances, because a confirmation evaluates a rollout twice and takes up to twice the cut-off. With
--fresh-seeds 3 they are, as in a run by default. The prediction uses the durations recorded in the run itself.

Each run searches by itself, so the runs evaluate different programs for different times. The relevant figure is
therefore the speed-up "of equal evaluations": the run compared with a simulated barrier on the run's own evaluations.
That simulation is lengthened by the factor by which the real barrier exceeded its own simulation. Exit code 1 if a
figure misses its mark.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pace_async.task import BLOCK_END
from research.benchmarks.bench_runs import PACE, Wanted, connect, finished, run_all

ROOT = Path(__file__).resolve().parents[2]
GROUP = 8
BOUND = 2
SPEEDUPS = {8: 1.6, 12: 2.2, 16: 2.4}
TOLERANCE = 0.08
SHIFT = 0.03

EVALUATED = """
select c.seconds + coalesce((select sum(f.seconds) from fresh_scores f where f.candidate = c.candidate), 0), l.state
from candidates c join leases l on l.lease = c.lease"""

SLEEP = '''

def rest():
    """Sleep for a time that follows from the settings: lognormal, mean {mean} s, cv {cv}, at most {cap} s."""
    import math
    import random
    import time

    variance = math.log1p({cv} ** 2)
    normal = random.Random(f"{{start}} {{improve}} {{tries}} {{heat}} {{draw}}").gauss(0.0, 1.0)
    time.sleep(min({cap}, {mean} * math.exp(math.sqrt(variance) * normal - variance / 2)))
'''


@dataclass(frozen=True, slots=True)
class Shape:
    """One run. `policy` sync stands for the barrier."""

    threads: int
    policy: str

    @property
    def name(self) -> str:
        return f"{self.policy}-{self.threads}"


@dataclass(frozen=True, slots=True)
class Found:
    """Seconds from the first lease to the last score: measured, predicted, and predicted behind a barrier. Ages of
    trained rollouts. Mean seconds of the evaluations of trained rollouts and of all, confirmations included."""

    seconds: float
    predicted: float
    behind_barrier: float
    stalest: int
    expired: int
    trained_evaluation: float
    evaluation: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=160)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mean", type=float, default=8.0, help="mean seconds of an evaluation")
    parser.add_argument("--cv", type=float, default=0.6)
    parser.add_argument("--cap", type=float, default=16.0)
    parser.add_argument("--fresh-seeds", type=int, default=0, help="fresh instances on which a new best is confirmed")
    parser.add_argument("--folder", type=Path, default=Path("runs/bench_async"))
    parser.add_argument("--report-only", action="store_true")
    chosen = parser.parse_args()
    shapes = [Shape(GROUP, "sync"), *(Shape(threads, "pace") for threads in SPEEDUPS), Shape(16, "drop")]
    if not chosen.report_only:
        chosen.folder.mkdir(parents=True, exist_ok=True)
        task = write_task(chosen)
        failed = run_all([wanted(chosen, task, shape) for shape in shapes], jobs=1)
        if failed:
            sys.stderr.write(f"failed: {', '.join(failed)}\n")
            return 1
    found = {
        shape: read(chosen.folder / shape.name, shape, chosen.candidates)
        for shape in shapes
        if finished(chosen.folder / shape.name)
    }
    missed = report(found)
    for line in missed:
        sys.stderr.write(f"missed: {line}\n")
    return 1 if missed else 0


def write_task(chosen: argparse.Namespace) -> Path:
    """The example of `pace task init`, made to sleep before it answers its first instance."""
    folder = chosen.folder / "sleeping"
    if folder.exists():
        return folder
    subprocess.run([PACE, "task", "init", folder.name], check=True, stdout=subprocess.DEVNULL, cwd=chosen.folder)
    program = folder / "initial.py"
    text = program.read_text()
    sleep = SLEEP.format(mean=chosen.mean, cv=chosen.cv, cap=chosen.cap)
    text = text.replace(BLOCK_END + "\n", f"{BLOCK_END}\nasleep = []\n{sleep}", 1)
    text = text.replace(
        "    points = instance", "    if not asleep:\n        asleep.append(rest())\n    points = instance", 1
    )
    program.write_text(text)
    spec = folder / "task.yaml"
    text = spec.read_text().replace("timeout_s: 10", f"timeout_s: {10 + chosen.cap:g}")
    spec.write_text(text.replace("deterministic: true", "deterministic: false"))  # or an equal program takes no time
    return folder


def wanted(chosen: argparse.Namespace, task: Path, shape: Shape) -> Wanted:
    """The run of one shape."""
    arguments = [str(task), "--threads", str(shape.threads), "--seed", str(chosen.seed)]
    arguments += ["--candidates", str(chosen.candidates), "--set", f"evaluation.slots={shape.threads}"]
    arguments += ["--set", f"learner.group_size={GROUP}", "--set", f"evaluation.fresh_seeds={chosen.fresh_seeds}"]
    if shape.policy == "sync":
        arguments.append("--sync")
    else:
        arguments += ["--async", "--max-staleness", str(BOUND), "--staleness-policy", shape.policy]
    return Wanted(chosen.folder / shape.name, arguments)


def read(folder: Path, shape: Shape, candidates: int) -> Found:
    """The times of a finished run, and those of the simulation of its durations."""
    database = connect(folder)
    [seconds] = database.execute(
        "select max(c.at) - min(l.opened_at) from candidates c join leases l on l.lease = c.lease"
    ).fetchone()
    ages = [age for [age] in database.execute("select staleness from leases where state = 'trained'")]
    [expired] = database.execute("select count(*) from leases where state = 'expired'").fetchone()
    rows = database.execute(EVALUATED).fetchall()
    command = [PACE, "simulate", "--like", str(folder), "--candidates", str(candidates), "--json"]
    if shape.policy != "sync":
        command += ["--policy", shape.policy]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    behind_barrier = 3600.0 * candidates / said["sync_candidates_per_hour"]
    return Found(
        seconds=seconds,
        predicted=behind_barrier if shape.policy == "sync" else said["virtual_seconds"],
        behind_barrier=behind_barrier,
        stalest=max(ages, default=0),
        expired=expired,
        trained_evaluation=float(np.mean([s for s, state in rows if state == "trained"])),
        evaluation=float(np.mean([s for s, _ in rows])),
    )


def report(found: dict[Shape, Found]) -> list[str]:
    """Print the table. Returns the figures that miss their mark."""
    missed: list[str] = []
    barrier = found[Shape(GROUP, "sync")]
    print(
        "| run | seconds | predicted | speed-up | predicted | of equal evaluations | per slot | stalest | expired "
        "| evaluated: trained / all |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for shape, run in found.items():
        speedup, predicted = barrier.seconds / run.seconds, barrier.predicted / run.predicted
        shift = run.trained_evaluation / run.evaluation - 1
        fair = run.behind_barrier * (barrier.seconds / barrier.predicted) / run.seconds
        print(
            f"| {shape.policy}, {shape.threads} threads | {run.seconds:.1f} | {run.predicted:.1f} | {speedup:.2f} "
            f"| {predicted:.2f} | {fair:.2f} | {fair * GROUP / shape.threads:.2f} | {run.stalest} | {run.expired} "
            f"| {run.trained_evaluation:.2f} / {run.evaluation:.2f} s ({shift:+.1%}) |"
        )
        if shape.policy != "pace":
            continue
        if fair < SPEEDUPS[shape.threads]:
            missed.append(f"{shape.name} is {fair:.2f} times as fast as sync, not {SPEEDUPS[shape.threads]}")
        if abs(speedup / predicted - 1) > TOLERANCE:
            missed.append(f"{shape.name}: speed-up {speedup:.2f}, predicted {predicted:.2f}")
        if run.stalest > BOUND or run.expired:
            missed.append(f"{shape.name}: stalest {run.stalest}, {run.expired} expired")
        if abs(shift) > SHIFT:
            missed.append(f"{shape.name}: trained rollouts evaluated {shift:+.1%} longer than all")
    return missed


if __name__ == "__main__":
    sys.exit(main())
