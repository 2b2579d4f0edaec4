"""The figures of the finished runs of the trials, and the statistics of their differences."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pace_async.task import load_task
from research.benchmarks.bench_runs import connect, finished, stats
from research.benchmarks.run_traces import read
from research.benchmarks.site_board import Board, best_known
from research.trials.noise import NOISY, exact_curve
from research.trials.plan import HALF, MARGIN, Comparison, Measure, folder_of

LEVEL = 0.05
"""Of significance, after the correction."""
Ends = tuple[float, float]
"""The scores at share 0 and at share 1: of the seed program, and of the best known one."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One run. `curve` is the share of the way after each candidate. `trained` and `skipped` are groups. `held` counts
    the updates that the guard against collapse made shorter, discarded or rolled back. `parsed` is the share of advice
    that could be parsed, `entropy` in nats a token in the first and in the last tenth of the updates, `seconds` the
    wall clock from the first lease to the last score. `age` is the mean staleness of the rollouts that trained."""

    curve: Sequence[float]
    trained: int
    skipped: int
    held: int
    parsed: float
    entropy: tuple[float, float]
    seconds: float
    age: float

    def share(self, candidates: int) -> float:
        """The share after so many candidates."""
        return self.curve[min(candidates, len(self.curve)) - 1]

    @property
    def censored(self) -> bool:
        """Whether it never reached the mark."""
        return self.curve[-1] < HALF

    def measured(self, measure: Measure) -> float:
        """The figure of that name."""
        if measure == "area":
            return float(np.mean(self.curve))
        if measure == "evaluations to the mark":
            return float(sum(share < HALF for share in self.curve[:-1]) + 1)
        return self.share(int(measure.split()[-1]))


def figures_of(folder: Path, ends: Ends) -> Figures:
    """Those of a finished run."""
    trace, database = read(folder), connect(folder)
    first, best = ends
    states = dict(database.execute("select state, count(*) from groups group by state").fetchall())
    [held] = database.execute("select count(*) from groups where step_scale < 1").fetchone()
    [back] = database.execute("select count(*) from versions where restored is not null").fetchone()
    [parsed] = database.execute("select avg(description is not null) from experiments").fetchone()
    [age] = database.execute("select avg(staleness) from leases where state = 'trained'").fetchone()
    exact = exact_curve(database)
    nats = trace.entropy if len(trace.entropy) else np.array([float("nan")])
    tenth = max(1, len(nats) // 10)
    return Figures(
        curve=[(float(score) - first) / (best - first) for score in (trace.best if exact is None else exact)],
        trained=states.get("trained", 0),
        skipped=states.get("skipped", 0),
        held=held + back,
        parsed=float(parsed),
        entropy=(float(np.mean(nats[:tenth])), float(np.mean(nats[-tenth:]))),
        seconds=trace.seconds,
        age=float(age or 0.0),
    )


def ends_of(folder: Path, testbed: str, seed: int) -> Ends:
    """The ends of the way on the hidden instance of a seed. The search for the best known program takes about a minute,
    so its result is kept in a file of the folder. Noise changes neither end."""
    if testbed == NOISY:
        testbed = "columnar"
    kept = folder / "best_known" / f"{testbed}-{seed}.json"
    if not kept.exists():
        board = Board(load_task(testbed), seed)
        found = (board.score(board.start), board.score(best_known(board)))
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft = kept.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(found))
        draft.rename(kept)
    first, best = json.loads(kept.read_text())
    return float(first), float(best)


def arm_figures(folder: Path, testbed: str, arm: str, seeds: Sequence[int], candidates: int) -> Mapping[int, Figures]:
    """The figures of the finished runs of an arm, by seed."""
    runs = {seed: folder_of(folder, testbed, arm, seed, candidates) for seed in seeds}
    return {seed: figures_of(run, ends_of(folder, testbed, seed)) for seed, run in runs.items() if finished(run)}


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean of paired differences with its 95 % interval, and the two-sided p of a paired t test that it is 0.
    `equivalent_p` is the p of two one-sided t tests that it lies beyond MARGIN. Fewer than two pairs have no
    interval."""

    mean: float
    low: float
    high: float
    p: float
    equivalent_p: float
    pairs: int

    def __str__(self) -> str:
        if self.pairs < 2:
            return f"{self.mean:+.3f} ({self.pairs} pair)"
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def difference(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Difference | None:
    """Ours less theirs over the seeds that both have. None if there is none."""
    gaps = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
    if not gaps:
        return None
    mean, count = float(np.mean(gaps)), len(gaps)
    error = float(np.std(gaps, ddof=1)) / count**0.5 if count > 1 else 0.0
    if error == 0.0:
        return Difference(mean, mean, mean, float("nan"), float("nan"), count)
    t: Any = stats
    half = float(t.t.ppf(0.975, count - 1)) * error
    p = 2 * float(t.t.sf(abs(mean) / error, count - 1))
    beyond = max(float(t.t.sf((mean + MARGIN) / error, count - 1)), float(t.t.sf((MARGIN - mean) / error, count - 1)))
    return Difference(mean, mean - half, mean + half, p, beyond, count)


def holm(values: Sequence[float]) -> list[float]:
    """Holm's correction: each p with which its hypothesis would still be rejected, all of them together."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    found, highest = [0.0] * len(values), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(values) - rank) * values[place]))
        found[place] = highest
    return found


def verdict(comparison: Comparison, found: Difference, p: float) -> str:
    """The verdict, with the corrected p."""
    if comparison.better == 0:
        return "reproduced" if p < LEVEL else "not told apart"
    if p >= LEVEL:
        return "not told apart"
    return "reproduced" if found.mean * comparison.better > 0 else "contradicted"
