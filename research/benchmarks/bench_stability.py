"""Does learning ruin its own advisor? Default runs of every bundled task, and of every objective.

    python research/benchmarks/bench_stability.py --jobs 2  # resumable: finished runs are not run again
    python research/benchmarks/bench_stability.py --shard 2/3  # every third run, beginning with the second
    python research/benchmarks/bench_stability.py --report-only

Each run is `pace run TASK --async --seed N` as a user would start it, in a separate process. The script prints for each
finished run:

- the share of unparsed candidates in its last quarter, by completion (mark: at most 15 %);
- the share of groups skipped after the tenth (mark: at most a quarter);
- the steps shortened and the steps undone;
- how often the advisor went back to an earlier version;
- the largest k3 and the smallest effective sample size of a group;
- whether the marks hold.

Then it prints for each kind of run how many missed a mark, with Wilson's 95 % interval of that share.
"""

import argparse
import math
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from research.benchmarks.bench_runs import (
    Wanted,
    connect,
    exit_code,
    finished,
    known_names,
    known_tasks,
    made_folder,
    part_of,
    positive,
    run_all,
    seeds_of,
)

OBJECTIVES = ("pace", "grpo", "entropic", "maxk")
MOST_UNPARSED = 0.15
MOST_SKIPPED = 0.25
SETTLED = 10
"""Groups after which skipped ones count: before, the advisor may not have found two rewards that differ."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of runs, which are counted together."""

    task: str
    objective: str

    def __str__(self) -> str:
        return f"{self.task}, {self.objective}"


@dataclass(frozen=True, slots=True)
class Figures:
    """One run. Without a group after the tenth the share of skipped ones is 0."""

    unparsed: float
    skipped: float
    shortened: int
    undone: int
    went_back: int
    k3: float
    ess: float

    @property
    def holds(self) -> bool:
        return self.unparsed <= MOST_UNPARSED and self.skipped <= MOST_SKIPPED


def main() -> int:
    """Run the missing runs, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="circle_packing,eplb,txn_scheduling", help="by comma")
    parser.add_argument("--seeds", default="0-19", help="of each task with the default objective, first-last")
    parser.add_argument("--objectives", default=",".join(OBJECTIVES), help="by comma; none: no runs of objectives")
    parser.add_argument("--objective-seeds", default="0-9", help="of each objective, on the first task")
    parser.add_argument("--candidates", type=positive, help="of each run; by default what pace run does")
    parser.add_argument("--jobs", type=positive, default=2)
    parser.add_argument("--shard", default="1/1", help="i/n: the i-th of n parts of the runs")
    parser.add_argument("--folder", type=Path, default=Path("runs/bench_stability"))
    parser.add_argument("--report-only", action="store_true")
    chosen = parser.parse_args()
    runs = wanted_runs(chosen)
    code = 0
    if not chosen.report_only:
        made_folder(chosen.folder)
        code = exit_code(run_all(part_of([run for _, run in runs], chosen.shard), chosen.jobs))
    done = [(kind, run.folder.name, figures_of(run.folder)) for kind, run in runs if finished(run.folder)]
    sys.stdout.write(report(done, len(runs)))
    return code


def wanted_runs(chosen: argparse.Namespace) -> list[tuple[Kind, Wanted]]:
    """All runs, seed by seed, so that a part of them is a sample of each kind. The default objective's runs on the
    first task serve both questions."""
    tasks, seeds = known_tasks(chosen.tasks), seeds_of(chosen.seeds)
    kinds = [(Kind(task, OBJECTIVES[0]), seeds) for task in tasks]
    if chosen.objectives != "none":
        names = known_names(chosen.objectives, OBJECTIVES, "objective")
        of_each = seeds_of(chosen.objective_seeds)
        kinds += [(Kind(tasks[0], name), of_each) for name in names if name != OBJECTIVES[0]]
    every = sorted({seed for _, some in kinds for seed in some})
    return [(kind, wanted(chosen, kind, seed)) for seed in every for kind, some in kinds if seed in some]


def wanted(chosen: argparse.Namespace, kind: Kind, seed: int) -> Wanted:
    """One run."""
    arguments = [kind.task, "--async", "--objective", kind.objective, "--seed", str(seed)]
    if chosen.candidates is not None:
        arguments += ["--candidates", str(chosen.candidates)]
    arguments.append(f"--set=evaluation.memo={chosen.folder / 'memo.db'}")
    return Wanted(chosen.folder / f"{kind.task}-{kind.objective}-{seed}", arguments)


def figures_of(folder: Path) -> Figures:
    """Read one run."""
    database = connect(folder)
    outcomes = [row[0] for row in database.execute("select outcome from candidates where lease > 0 order by at, lease")]
    quarter = outcomes[-max(1, len(outcomes) // 4) :]
    groups = database.execute("select step_scale, k3, ess, restores from groups where state <> 'shipped'").fetchall()
    later = [row[0] for row in database.execute("select state from groups where group_number > ?", (SETTLED,))]
    return Figures(
        unparsed=quarter.count("unparsed") / len(quarter),
        skipped=later.count("skipped") / max(1, len(later)),
        shortened=sum(scale is not None and 0 < scale < 1 for scale, _, _, _ in groups),
        undone=sum(scale == 0 for scale, _, _, _ in groups),
        went_back=sum(restores is not None for _, _, _, restores in groups),
        k3=max((k3 for _, k3, _, _ in groups if k3 is not None), default=math.nan),
        ess=min((ess for _, _, ess, _ in groups if ess is not None), default=math.nan),
    )


def report(done: list[tuple[Kind, str, Figures]], of: int) -> str:
    """The tables, in Markdown."""
    lines = [f"{len(done)} of {of} runs have finished.", ""]
    lines += [
        "| run | unparsed in the last quarter | skipped after the tenth group | steps shortened | undone "
        "| went back | largest k3 | smallest ESS | marks |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    by_kind: defaultdict[str, list[Figures]] = defaultdict(list)
    for kind, name, figures in sorted(done, key=lambda one: (str(one[0]), one[1])):
        by_kind[str(kind)].append(figures)
        lines.append(
            f"| {name} | {figures.unparsed:.1%} | {figures.skipped:.1%} | {figures.shortened} | {figures.undone} "
            f"| {figures.went_back} | {figures.k3:.4f} | {figures.ess:.4f} | {'hold' if figures.holds else 'MISSED'} |"
        )
    lines += ["", "| kind | runs | missed a mark | mean unparsed | mean skipped |", "|---|---|---|---|---|"]
    for name, runs in by_kind.items():
        missed = sum(not one.holds for one in runs)
        low, high = wilson(missed, len(runs))
        lines.append(
            f"| {name} | {len(runs)} | {missed} [{low:.0%}, {high:.0%}] "
            f"| {sum(one.unparsed for one in runs) / len(runs):.1%} "
            f"| {sum(one.skipped for one in runs) / len(runs):.1%} |"
        )
    return "\n".join(lines) + "\n"


def wilson(hits: int, of: int) -> tuple[float, float]:
    """95 % interval of a share of `of` > 0, within 0 and 1."""
    z = 1.96
    share = hits / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, middle - half), min(1.0, middle + half)


if __name__ == "__main__":
    sys.exit(main())
