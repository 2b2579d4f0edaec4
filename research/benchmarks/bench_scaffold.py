"""Measures each part of the scaffold: the whole against plain top-k, and against itself without one part.

    python research/benchmarks/bench_scaffold.py --seeds 0-4 --jobs 2  # resumable: finished runs are not run again
    python research/benchmarks/bench_scaffold.py --seeds 0-4 --shard 1/3  # one third of the runs
    python research/benchmarks/bench_scaffold.py --seeds 0-4 --report-only

`all` is PACEvolve's scaffold: a tournament for parents, a pool of ideas with their experiments, and islands that go
back and cross over. `top-k` has none of these: one of the best as parent, occasional migration, and a prompt without
history. `default` is the default of `pace run`. Budgets are equal. Four islands of 120 rollouts each act several times,
eight of 60 hardly ever. Nothing is trained, so that only the search differs, unless --objective is given.

The script prints for each run the best score, the area under best-so-far, how often islands went back and crossed over,
and how often an idea had been tried before. It also prints the candidates until 95 % of the way from the seed program
to the best score of any run here. If a run did not get there, the budget stands for it, so the figure is a lower bound.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from research.benchmarks.bench_runs import (
    Wanted,
    connect,
    difference,
    exit_code,
    finished,
    known_names,
    known_tasks,
    made_folder,
    part_of,
    positive,
    refuse,
    run_all,
    seeds_of,
    spread,
)
from research.benchmarks.objectives_plot import draw
from research.benchmarks.run_traces import Trace, read, until

NO_ACTIONS = {"backtracking": "false"}
NO_POOL = {"ideas_kept": "1", "trials_shown": "0"}
ARMS: Mapping[str, Mapping[str, str]] = {
    "all": {},
    "without going back": {"actions": "crossover"},
    "without crossing over": {"actions": "backtrack"},
    "without both": NO_ACTIONS,
    "without the tournament": {"parents": "top_k"},
    "without the pool of ideas": NO_POOL,
    "top-k": {**NO_ACTIONS, **NO_POOL, "parents": "top_k", "migration": "0.1"},
    "default": {**NO_ACTIONS, "migration": "1"},
}
"""The settings of `search` that differ from `ALL`."""
ALL = {"backtracking": "true", "migration": "0"}


@dataclass(frozen=True, slots=True)
class Ended:
    """One finished run: its curves, the counts of islands that went back and that crossed over, and the share of
    experiments whose idea, by its words, the same island had tried before."""

    trace: Trace
    back: int
    crossed: int
    again: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="circle_packing", help="by comma")
    parser.add_argument("--arms", default=",".join(ARMS), help="by comma")
    parser.add_argument("--seeds", default="0-4", help="first-last")
    parser.add_argument("--candidates", type=positive, default=480)
    parser.add_argument("--islands", type=positive, default=4, help="search threads")
    parser.add_argument("--objective", default="none")
    parser.add_argument("--jobs", type=positive, default=2, help="runs at once")
    parser.add_argument("--shard", default="1/1", help="i/n: the i-th of n parts of the runs")
    parser.add_argument("--folder", type=Path, default=Path("runs/bench_scaffold"))
    parser.add_argument("--plots", type=Path, help="folder of the plots; default: that of the runs")
    parser.add_argument("--report-only", action="store_true")
    chosen = parser.parse_args()
    arms, seeds, tasks = known_names(chosen.arms, ARMS, "arm"), seeds_of(chosen.seeds), known_tasks(chosen.tasks)
    failed: list[str] = []
    if not chosen.report_only:
        made_folder(chosen.folder)
        every = [wanted(chosen, task, arm, seed) for seed in seeds for task in tasks for arm in arms]
        failed = run_all(part_of(every, chosen.shard), chosen.jobs)
    found = 0
    for task in tasks:
        runs = {
            arm: [ended(folder) for seed in seeds if finished(folder := folder_of(chosen, task, arm, seed))]
            for arm in arms
        }
        runs = {arm: every for arm, every in runs.items() if every}
        found += len(runs)
        if runs:
            print(report(task, runs))
            mark = best_of_all(runs)
            missing = {(arm, ""): [mark - run.trace.best for run in every] for arm, every in runs.items()}
            file = (chosen.plots or chosen.folder) / f"scaffold_{task}.svg"
            draw(file, task, {"what the best score so far lacks of the best of any run": missing}, scale="log")
    if not found and not failed:
        refuse(f"there is no finished run in {chosen.folder}")
    return exit_code(failed)


def folder_of(chosen: argparse.Namespace, task: str, arm: str, seed: int) -> Path:
    """The folder of one run."""
    return chosen.folder / f"{task}-{arm.replace(' ', '-')}-{seed}"


def wanted(chosen: argparse.Namespace, task: str, arm: str, seed: int) -> Wanted:
    """One arm at one seed."""
    arguments = [task, "--objective", chosen.objective, "--seed", str(seed), "--candidates", str(chosen.candidates)]
    arguments += ["--set", f"search.threads={chosen.islands}"]
    arguments += [f"--set=evaluation.memo={chosen.folder / 'memo.db'}"]
    for name, value in {**ALL, **ARMS[arm]}.items():
        arguments += ["--set", f"search.{name}={value}"]
    return Wanted(folder_of(chosen, task, arm, seed), arguments)


def ended(folder: Path) -> Ended:
    """The figures of one finished run."""
    database = connect(folder)
    acted = dict(database.execute("select action, count(*) from actions group by action").fetchall())
    [tried, ideas] = database.execute(
        "select count(*), count(distinct e.island || ' ' || i.description) from experiments e "
        "join ideas i on i.run_id = e.run_id and i.island = e.island and i.idea = e.idea"
    ).fetchone()
    return Ended(read(folder), acted.get("backtrack", 0), acted.get("crossover", 0), 1.0 - ideas / tried)


def best_of_all(runs: Mapping[str, Sequence[Ended]]) -> float:
    """The best score of any run, higher being better."""
    return max(float(run.trace.best[-1]) for every in runs.values() for run in every)


def report(task: str, runs: Mapping[str, Sequence[Ended]]) -> str:
    """The table of one task, and the differences from the whole scaffold, in Markdown."""
    mark = best_of_all(runs)
    names = ["best", "area under best-so-far", "candidates to 95 %"]
    lines = [f"### {task}", "", f"Seeds: {', '.join(sorted({str(len(every)) for every in runs.values()}))} an arm.", ""]
    lines += [f"| scaffold | {' | '.join(names)} | went back | crossed over | ideas tried again | seconds |"]
    lines += ["|---" * 8 + "|"]
    figures = {
        arm: [
            [float(run.trace.best[-1]) for run in every],
            [run.trace.area for run in every],
            [float(until(run.trace, mark)) for run in every],
        ]
        for arm, every in runs.items()
    }
    for arm, every in runs.items():
        cells = [spread(column) for column in figures[arm]]
        cells += [spread([float(run.back) for run in every]), spread([float(run.crossed) for run in every])]
        cells += [spread([run.again for run in every]), spread([run.trace.seconds for run in every])]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    first = next(iter(runs))
    lines += ["", f"| difference (95 % interval, Welch) | {' | '.join(names)} |", "|---" * 4 + "|"]
    for arm in runs:
        if arm != first and min(len(runs[arm]), len(runs[first])) > 1:
            cells = [difference(ours, theirs) for ours, theirs in zip(figures[first], figures[arm], strict=True)]
            lines.append(f"| {first} − {arm} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
