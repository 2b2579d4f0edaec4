"""Compares the objectives `pace grpo entropic maxk none`, behind a barrier and asynchronous, on equal budgets.

    python research/benchmarks/bench_objectives.py --seeds 0-9 --jobs 2  # resumable: finished runs are not run again
    python research/benchmarks/bench_objectives.py --seeds 0-9 --shard 1/3  # one third of the runs
    python research/benchmarks/bench_objectives.py --seeds 0-9 --report-only

To join shards, copy their folders into one. The script prints for each run:

- the best score;
- the area under best-so-far: the mean, over candidates, of the best score's place between the task's bounds;
- the candidates until 95 % of the way from the seed program to the best score of any run here. If a run did not get
  there, the budget stands for it, so the figure is a lower bound;
- the mean reward of valid candidates in the last quarter.

For each task the curves of best-so-far, entropy and gradient norm are drawn into TASK.svg in the folder of --plots.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from research.benchmarks.bench_runs import (
    Wanted,
    difference,
    finished,
    known_tasks,
    made_folder,
    part_of,
    positive,
    run_all,
    seeds_of,
    spread,
)
from research.benchmarks.objectives_plot import draw
from research.benchmarks.run_traces import Trace, read, until

OBJECTIVES = ("pace", "grpo", "entropic", "maxk", "none")
ASYNC = ["--async", "--max-staleness", "2"]
MODES = {
    "sync": ["--sync"],
    "async": ASYNC,
    "async behaviour": [*ASYNC, "--set", "learner.correction=behaviour"],
    "async uncapped": [*ASYNC, "--set", "learner.cap=null"],
}
"""The last two are the other corrections, to be asked for by `--modes`."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One row of the table."""

    task: str
    objective: str
    mode: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="circle_packing,eplb")
    parser.add_argument("--objectives", default=",".join(OBJECTIVES))
    parser.add_argument("--modes", default="sync,async")
    parser.add_argument("--seeds", default="0-9", help="first-last")
    parser.add_argument("--candidates", type=positive, default=240)
    parser.add_argument("--jobs", type=positive, default=2)
    parser.add_argument("--shard", default="1/1", help="i/n: the i-th of n parts of the runs")
    parser.add_argument("--folder", type=Path, default=Path("runs/bench_objectives"))
    parser.add_argument("--plots", type=Path, help="folder of the plots; default: that of the runs")
    parser.add_argument("--report-only", action="store_true")
    chosen = parser.parse_args()
    seeds, tasks = seeds_of(chosen.seeds), known_tasks(chosen.tasks)
    arms = [Arm(*names) for names in product(tasks, chosen.objectives.split(","), chosen.modes.split(","))]
    if not chosen.report_only:
        made_folder(chosen.folder)
        every = [wanted(chosen, arm, seed) for seed in seeds for arm in arms]
        failed = run_all(part_of(every, chosen.shard), chosen.jobs)
        if failed:
            sys.stderr.write(f"failed: {', '.join(failed)}\n")
            return 1
    traces = {arm: [read(folder) for seed in seeds if finished(folder := folder_of(chosen, arm, seed))] for arm in arms}
    for task in dict.fromkeys(arm.task for arm in arms):
        runs = {arm: runs for arm, runs in traces.items() if arm.task == task and runs}
        if runs:
            print(report(task, runs))
            plot(task, runs, (chosen.plots or chosen.folder) / f"{task}.svg")
    return 0


def folder_of(chosen: argparse.Namespace, arm: Arm, seed: int) -> Path:
    """The folder of one run."""
    return chosen.folder / f"{arm.task}-{arm.objective}-{arm.mode.replace(' ', '-')}-{seed}"


def wanted(chosen: argparse.Namespace, arm: Arm, seed: int) -> Wanted:
    """One arm at one seed."""
    arguments = [arm.task, "--objective", arm.objective, *MODES[arm.mode], "--seed", str(seed)]
    arguments += ["--candidates", str(chosen.candidates), f"--set=evaluation.memo={chosen.folder / 'memo.db'}"]
    return Wanted(folder_of(chosen, arm, seed), arguments)


def report(task: str, runs: Mapping[Arm, Sequence[Trace]]) -> str:
    """The table of one task, and the differences from `none` and from sync, in Markdown."""
    mark = max(trace.best[-1] for traces in runs.values() for trace in traces)
    lines = [
        f"### {task}",
        "",
        f"Seeds: {', '.join(sorted({str(len(traces)) for traces in runs.values()}))} an arm.",
        "",
    ]
    lines += [
        "| objective | mode | best | area under best-so-far | candidates to 95 % | late reward of valid | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    figures = {
        arm: (
            [float(trace.best[-1]) for trace in traces],
            [trace.area for trace in traces],
            [float(until(trace, mark)) for trace in traces],
            [trace.valid_reward for trace in traces],
            [trace.seconds for trace in traces],
        )
        for arm, traces in runs.items()
    }
    for arm, columns in figures.items():
        lines.append(f"| {arm.objective} | {arm.mode} | " + " | ".join(spread(column) for column in columns) + " |")
    lines += ["", "| difference (95 % interval, Welch) | best | area | candidates to 95 % | late reward of valid |"]
    lines += ["|---|---|---|---|---|"]
    for arm, columns in figures.items():
        for other in (Arm(task, "none", arm.mode), *(Arm(task, arm.objective, mode) for mode in ("sync", "async"))):
            if other == arm or other not in figures or len(columns[0]) < 2 or len(figures[other][0]) < 2:
                continue
            if other.objective == "none" and arm.objective == "none":
                continue
            if arm.mode == "sync" and other.mode == "async":
                continue
            cells = [difference(ours, theirs) for ours, theirs in zip(columns[:4], figures[other][:4], strict=True)]
            lines.append(f"| {arm.objective} {arm.mode} − {other.objective} {other.mode} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def plot(task: str, runs: Mapping[Arm, Sequence[Trace]], path: Path) -> None:
    """Draw the three panels. Runs that train nothing appear only in the first."""
    learning = {arm: traces for arm, traces in runs.items() if any(len(trace.entropy) for trace in traces)}
    panels = {
        "best score so far": {_curve(arm): [trace.best for trace in traces] for arm, traces in runs.items()},
        "entropy, nats a token": {_curve(arm): [trace.entropy for trace in traces] for arm, traces in learning.items()},
        "gradient norm": {_curve(arm): [trace.grad_norm for trace in traces] for arm, traces in learning.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(path, task, panels)


def _curve(arm: Arm) -> tuple[str, str]:
    return arm.objective, arm.mode


if __name__ == "__main__":
    sys.exit(main())
