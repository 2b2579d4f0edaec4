"""Runs of a benchmark: each is `pace run` as a user would run it, in a folder of its own, not run again once done."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

PACE = str(Path(sys.executable).with_name("pace"))


@dataclass(frozen=True, slots=True)
class Wanted:
    """One run: `arguments` are those of `pace run`, without folder and display."""

    folder: Path
    arguments: Sequence[str]


def seeds_of(text: str) -> range:
    """Seeds as "first-last", or a single one."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def part_of(every: Sequence[Wanted], shard: str) -> Sequence[Wanted]:
    """Those that shard "i/n" runs, of n that together run all."""
    part, _, parts = shard.partition("/")
    if not 1 <= int(part) <= int(parts):
        raise ValueError(f"a shard is i/n with i from 1 to n, not {shard!r}")
    return every[int(part) - 1 :: int(parts)]


def run_all(wanted: Iterable[Wanted], jobs: int) -> list[str]:
    """Run or resume those that have not finished, `jobs` at once; names of those that failed. Ctrl-C leaves what is
    running to end by itself and begins no other."""
    pool = ThreadPoolExecutor(jobs)
    try:
        return [name for name in pool.map(_run, wanted) if name]
    finally:
        pool.shutdown(cancel_futures=True)


def _run(wanted: Wanted) -> str | None:
    folder = wanted.folder
    if finished(folder):
        return None
    if (folder / "population.db").exists():
        command = [PACE, "resume", str(folder), "--display", "none"]
    else:
        command = [PACE, "run", *wanted.arguments, "--run-dir", str(folder), "--display", "none"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    sys.stderr.write(f"{folder.name}: exit {done.returncode}\n{done.stderr[-500:] if done.returncode else ''}")
    return None if done.returncode == 0 else folder.name


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


def difference(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Mean difference with Welch's 95 % interval; without one where neither side varies."""
    gap = float(np.mean(ours) - np.mean(theirs))
    parts = np.array([np.var(side, ddof=1) / len(side) for side in (ours, theirs)])
    error = float(parts.sum())
    if error == 0.0:
        return f"{gap:+.3f} (none varies)"
    freedom = error**2 / float((parts**2 / [len(ours) - 1, len(theirs) - 1]).sum())
    test: Any = stats
    half = test.t.ppf(0.975, freedom) * error**0.5
    return f"{gap:+.3f} [{gap - half:+.3f}, {gap + half:+.3f}]"
