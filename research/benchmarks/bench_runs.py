"""Runs of a benchmark. Each is `pace run` as a user would run it, in its own folder, and is not repeated once done."""

import argparse
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from pace_async.errors import UsageError
from pace_async.task import Task, load_task

try:
    from scipy import stats
except ModuleNotFoundError:
    sys.exit(f"{Path(sys.argv[0]).name}: needs the packages for development, which `make setup` installs")

NEAR = 0.95
"""Of the way from the seed program to the best of any run: how soon a run gets there is compared."""
PACE = str(Path(sys.executable).with_name("pace"))
Running = subprocess.Popen[str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One run: `arguments` are those of `pace run`, without folder and display."""

    folder: Path
    arguments: Sequence[str]


def refuse(sentence: str) -> NoReturn:
    """End the script because of wrong arguments."""
    sys.stderr.write(f"{Path(sys.argv[0]).name}: {sentence}\n")
    raise SystemExit(2)


def seeds_of(text: str) -> range:
    """Seeds as "first-last", or a single one."""
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    seeds = range(int(found[1]), int(found[2] or found[1]) + 1) if found else range(0)
    return seeds or refuse(f"--seeds is first-last, as in 0-4, or a single one, not {text!r}")


def known_tasks(text: str) -> list[str]:
    """Names of existing tasks, from a list with commas."""
    for name in (names := text.split(",")):
        try:
            load_task(name)
        except UsageError as error:
            refuse(str(error))
    return names


def catalogue_task(name: str) -> Task:
    """The task of this name. It must exist, have a catalogue, and maximise its score."""
    known_tasks(name)
    task = load_task(name)
    if task.catalogue_path is None:
        refuse(f"task {name} has no catalogue")
    if task.spec.direction != "maximize":
        refuse(f"the scores of task {name} are to be minimised, and this compares only what is maximised")
    return task


def positive(text: str) -> int:
    """A whole number of 1 or more, as an argument's type."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def known_names(text: str, known: Collection[str], what: str) -> list[str]:
    """Known names, from a list with commas."""
    names = text.split(",")
    if unknown := sorted(set(names) - set(known)):
        refuse(f"there is no {what} {', '.join(unknown)}: {', '.join(known)}")
    return names


def exit_code(failed: Sequence[str]) -> int:
    """Print which runs failed. Returns the script's exit code."""
    if failed:
        sys.stderr.write(f"failed: {', '.join(failed)}; the same command tries them again\n")
    return 1 if failed else 0


def made_folder(folder: Path) -> Path:
    """The folder, created if missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse(f"cannot write to {folder}: {error.strerror}")
    return folder


def part_of(every: Sequence[Wanted], shard: str) -> Sequence[Wanted]:
    """The runs of shard "i/n". The n shards together run all."""
    found = re.fullmatch(r"(\d+)/(\d+)", shard)
    part, parts = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= part <= parts:
        refuse(f"a shard is i/n with i from 1 to n, not {shard!r}")
    return every[part - 1 :: parts]


def run_all(wanted: Sequence[Wanted], jobs: int) -> list[str]:
    """Run or resume the unfinished runs, `jobs` at once. Returns the names of those that failed. Running processes
    also get Ctrl-C, and SIGTERM is passed on to them. The next start resumes them."""
    left = [run for run in wanted if not finished(run.folder)]
    for run in wanted:
        if (given := _given_before(run)) not in (None, _told(run)):
            refuse(f"{run.folder} is a run with other settings ({given}); name another folder for these")
    if len(left) < len(wanted):
        sys.stderr.write(f"{len(wanted) - len(left)} of {len(wanted)} runs have finished before\n")
    pool = ThreadPoolExecutor(jobs)
    running: list[Running] = []

    def ended(*_: object) -> None:
        for run in list(running):
            run.send_signal(signal.SIGINT)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, ended)
    try:
        numbers, of = range(1, len(left) + 1), repeat(len(left))
        return [name for name in pool.map(_run, left, numbers, of, repeat(running)) if name]
    except KeyboardInterrupt:
        pool.shutdown(cancel_futures=True)
        sys.stderr.write("interrupted; the same command goes on\n")
        raise SystemExit(130) from None
    finally:
        pool.shutdown(cancel_futures=True)
        signal.signal(signal.SIGTERM, before)


def _run(wanted: Wanted, number: int, of: int, running: list[Running]) -> str | None:
    folder = wanted.folder
    if (folder / "population.db").exists():
        command = [PACE, "resume", str(folder), "--display", "none"]
    else:
        command = [PACE, "run", *wanted.arguments, "--run-dir", str(folder), "--display", "none"]
        made_folder(folder.parent)
        _told_in(folder).write_text(_told(wanted))
    sys.stderr.write(f"{number}/{of} {folder.name} begins\n")
    began = time.monotonic()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    ) as run:
        running.append(run)
        _, said = run.communicate()
        running.remove(run)
    if not (folder / "population.db").exists():
        _told_in(folder).unlink(missing_ok=True)  # it was refused, so its arguments may change
    words = f"{folder.name}: exit {run.returncode} after {time.monotonic() - began:.0f} s\n"
    sys.stderr.write(words + (said[-500:] if run.returncode else ""))
    return None if run.returncode == 0 else folder.name


def _told(wanted: Wanted) -> str:
    """The arguments of the run. The place of the memo is left out, because it does not change the result."""
    return shlex.join(text for text in wanted.arguments if not text.startswith("--set=evaluation.memo="))


def _told_in(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.arguments")


def _given_before(wanted: Wanted) -> str | None:
    try:
        return _told_in(wanted.folder).read_text()
    except FileNotFoundError:
        return None


def connect(folder: Path) -> sqlite3.Connection:
    """The run's population, read-only."""
    return sqlite3.connect(f"file:{folder / 'population.db'}?mode=ro", uri=True)


def finished(folder: Path) -> bool:
    """Whether the run has ended by its own rule."""
    if not (folder / "population.db").exists():
        return False
    row = connect(folder).execute("select state from run_states order by number desc limit 1").fetchone()
    return row is not None and row[0] == "done"


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation."""
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else f"{np.mean(values):.3f}"


def interval(values: Sequence[float] | np.ndarray) -> str:
    """Mean ± half of its 95 % interval."""
    test: Any = stats
    half = test.sem(values) * test.t.ppf(0.975, len(values) - 1) if len(values) > 1 else float("nan")
    return f"{np.mean(values):.2f} ± {half:.2f}"


def difference(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Mean difference with Welch's 95 % interval, without an interval if neither side varies."""
    gap = float(np.mean(ours) - np.mean(theirs))
    parts = np.array([np.var(side, ddof=1) / len(side) for side in (ours, theirs)])
    error = float(parts.sum())
    if error == 0.0:
        return f"{gap:+.3f} (none varies)"
    freedom = error**2 / float((parts**2 / [len(ours) - 1, len(theirs) - 1]).sum())
    test: Any = stats
    half = test.t.ppf(0.975, freedom) * error**0.5
    return f"{gap:+.3f} [{gap - half:+.3f}, {gap + half:+.3f}]"
