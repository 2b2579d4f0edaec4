"""The scoreboard: what searches find in each problem whose best known score is published, beside that score.

    python research/scoreboard.py  # every bundled task with a target, seeds 0 to 2, 480 candidates each
    python research/scoreboard.py --tasks kissing_11 --seeds 0 --candidates 100
    python research/scoreboard.py --shard 2/3  # a third of the runs, for one of three machines
    python research/scoreboard.py --report-only --page docs/scoreboard.md --plot docs/plots/scoreboard.svg

Each run is `pace run TASK --advisor reader`, with the task's catalogue as implementer: no GPU, no key, no network.
Resumable: a finished run is not run again, and an interrupted one goes on. To join shards, copy their folders into one.
The table takes the longest finished run of each seed. A share is 0 at the seed program's score, 1 at the best known.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from pace_async.errors import UsageError
from pace_async.task import Task, load_task, task_folders
from research.benchmarks.bench_runs import (
    Wanted,
    connect,
    exit_code,
    finished,
    known_tasks,
    made_folder,
    part_of,
    positive,
    run_all,
    seeds_of,
)
from research.benchmarks.run_traces import read

matplotlib.use("svg")
import matplotlib.pyplot as pyplot

MARKS = (100, 480)
"""Candidates after which the best score is stated."""
MISSING = 8
"""So many candidates of a run may have no row, because a fault of the machine ended their lease."""
HEAD = """\
# Scoreboard

Written by `python research/scoreboard.py --report-only`.

What searches find in the problems whose best known score is published. Each run is `pace run TASK --advisor reader`:
the advisor of about a million weights in the package chooses among the options of the task's catalogue, and learns
while it searches. The share is 0 at the seed program's score and 1 at the best known score. A search among the options
of a catalogue sets no records: the page shows how far that alone goes.

"""


@dataclass(frozen=True, slots=True)
class Standing:
    """One finished run: the seed program's score and the best score after each candidate, in the task's direction. It
    began at `at`, in seconds since the epoch."""

    seed: int
    first: float
    best: Sequence[float]
    at: float = 0.0

    def after(self, candidates: int) -> float | None:
        """The best score after so many candidates, None if the run was shorter."""
        last = len(self.best) - 1
        return self.best[min(candidates, last)] if last + MISSING >= candidates else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", help="by comma; default: every bundled task with a target and a catalogue")
    parser.add_argument("--seeds", default="0-2", help="first-last, or a single one")
    parser.add_argument("--candidates", type=positive, default=MARKS[-1], help="of a run")
    parser.add_argument("--jobs", type=positive, default=2, help="runs at once")
    parser.add_argument("--shard", default="1/1", help="i/n: the i-th of n parts of the runs")
    parser.add_argument("--folder", type=Path, default=Path("runs/scoreboard"), help="of the runs")
    parser.add_argument("--page", type=Path, help="the page to write; default: scoreboard.md in the folder of the runs")
    parser.add_argument("--plot", type=Path, help="the plot to write; default: scoreboard.svg beside the page")
    parser.add_argument("--report-only", action="store_true")
    chosen = parser.parse_args()
    tasks, seeds = known_tasks(chosen.tasks) if chosen.tasks else with_target(), seeds_of(chosen.seeds)
    failed: list[str] = []
    if not chosen.report_only:
        made_folder(chosen.folder)
        every = [wanted(chosen.folder, task, seed, chosen.candidates) for seed in seeds for task in tasks]
        failed = run_all(part_of(every, chosen.shard), chosen.jobs)
    page = chosen.page or chosen.folder / "scoreboard.md"
    write({task: standings(chosen.folder, task) for task in tasks}, page, chosen.plot or page.with_suffix(".svg"))
    return exit_code(failed)


def with_target() -> list[str]:
    """Names of the tasks that have a best known score and a catalogue."""
    found: list[str] = []
    for name, folder in task_folders().items():
        try:
            spec = load_task(str(folder)).spec
        except UsageError:
            continue
        if spec.target is not None and spec.catalogue is not None:
            found.append(name)
    return sorted(found)


def wanted(folder: Path, task: str, seed: int, candidates: int) -> Wanted:
    """One run."""
    arguments = [task, "--advisor", "reader", "--seed", str(seed), "--candidates", str(candidates)]
    return Wanted(folder / f"{task}-{seed}-{candidates}", arguments)


def standings(folder: Path, task: str) -> list[Standing]:
    """The longest finished run of each seed."""
    longest: dict[int, tuple[int, Path]] = {}
    for run in folder.glob(f"{task}-*-*"):
        parts = run.name.removeprefix(f"{task}-").split("-")
        if len(parts) == 2 and all(part.isdecimal() for part in parts) and finished(run):
            seed, length = int(parts[0]), int(parts[1])
            longest[seed] = max(longest.get(seed, (0, run)), (length, run))
    found: list[Standing] = []
    for seed, (_, run) in sorted(longest.items()):
        database = connect(run)
        (direction,) = database.execute("select direction from runs").fetchone()
        (at,) = database.execute("select min(opened_at) from leases").fetchone()
        sign = 1.0 if direction == "maximize" else -1.0
        best = [sign * float(score) for score in read(run).best]
        found.append(Standing(seed, best[0], best, at))
    return found


def share(task: Task, first: float, score: float) -> float:
    """How far a score lies from the seed program's towards the best known."""
    assert task.spec.target is not None
    return (score - first) / (task.spec.target - first) + 0.0  # no -0.0


def write(found: Mapping[str, Sequence[Standing]], page: Path, plot: Path) -> None:
    """Write page and plot of the tasks that have finished runs."""
    tasks = {name: (load_task(name), runs) for name, runs in found.items() if runs}
    if not tasks:
        sys.stderr.write("no run has finished yet, so there is nothing to report\n")
        return
    marks = [mark for mark in MARKS if any(run.after(mark) is not None for _, runs in tasks.values() for run in runs)]
    heads = ["task", "better", "seed program", *(f"best after {mark}" for mark in marks), "best known"]
    heads += [*(f"share after {mark}" for mark in marks), "runs"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines += [row(task, runs, marks) for task, runs in tasks.values()]
    picture = Path(os.path.relpath(plot, page.parent)).as_posix()
    note = (
        "\nScores are means over the runs, with the least and the greatest in brackets where there are several. A dash "
        "says that no run was that long. The last column has the seeds, and the candidates of each run in brackets. "
        f"{began([run.at for _, runs in tasks.values() for run in runs])}\n\n"
        f"![Share of the way after each candidate]({picture})\n"
    )
    for file in (page, plot):
        made_folder(file.parent)
    page.write_text(HEAD + "\n".join(lines) + "\n" + note, encoding="utf-8")
    draw(tasks, plot)
    sys.stdout.write("\n".join(lines) + "\n")


def began(times: Sequence[float]) -> str:
    """When the runs began, in words."""
    days = [datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d") for time in (min(times), max(times))]
    return f"The runs began on {days[0]}." if days[0] == days[1] else f"The runs began from {days[0]} to {days[1]}."


def row(task: Task, runs: Sequence[Standing], marks: Sequence[int]) -> str:
    """One line of the table."""
    reached = {mark: [(run, score) for run in runs if (score := run.after(mark)) is not None] for mark in marks}
    direction = task.spec.fitness.in_words.split()[0]
    cells = [f"`{task.name}`", direction, f"{np.mean([run.first for run in runs]):.6g}"]
    cells += [_spread([score for _, score in reached[mark]], ".6g") for mark in marks]
    cells.append(f"{task.spec.target:.10g}")
    cells += [_spread([share(task, run.first, score) for run, score in reached[mark]], ".3f") for mark in marks]
    cells.append("seeds " + ", ".join(f"{run.seed} ({len(run.best) - 1})" for run in runs))
    return f"| {' | '.join(cells)} |"


def _spread(values: Sequence[float], form: str) -> str:
    if not values:
        return "–"
    mean = format(np.mean(values), form)
    return mean if len(values) == 1 else f"{mean} [{min(values):{form}}, {max(values):{form}}]"


def draw(tasks: Mapping[str, tuple[Task, Sequence[Standing]]], path: Path) -> None:
    """Write an SVG file: for each task the mean share of its runs after each candidate."""
    plot: Any = pyplot
    plot.rcParams.update({"svg.hashsalt": "pace", "font.size": 9})
    figure, axis = plot.subplots(figsize=(7.0, 4.4), layout="constrained")
    for number, (name, (task, runs)) in enumerate(tasks.items()):
        length = min(len(run.best) for run in runs)
        curves = [[share(task, run.first, score) for score in run.best[:length]] for run in runs]
        style = {"color": f"C{number % 10}", "linestyle": "-" if number < 10 else "--", "linewidth": 1.3}
        axis.plot(np.arange(length), np.mean(curves, axis=0), label=name, **style)
    axis.axhline(1.0, color="black", linewidth=0.8, linestyle=":")
    axis.set_ylim(0.0, 1.05)
    axis.set_xlabel("candidates")
    axis.set_ylabel("share of the way from seed program to best known")
    axis.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
