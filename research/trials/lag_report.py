"""Figures and tables of `forced_lag.py`: one row a run as CSV, and what is told apart as Markdown.

Differences are paired by seed. Holm's correction is over all comparisons of one table together.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import isnan
from pathlib import Path

import numpy as np

from research.benchmarks.bench_runs import connect, finished, spread
from research.trials.curves import best_after
from research.trials.figures import LEVEL, Difference, difference, holm
from research.trials.lag_plan import FRESH, STILL, Trial
from research.trials.mechanism import moves_of
from research.trials.page import joined


@dataclass(frozen=True, slots=True)
class LagFigures:
    """One run: best scores in bits after half and all of its candidates, the share of useful moves in its last half,
    means over its groups of the tokens' age, k3 and effective sample size, and the steps that a limit shortened."""

    lag: int
    arm: str
    seed: int
    best_half: float
    best: float
    useful: float
    age: float
    k3: float
    ess: float
    shortened: int


Arm = tuple[int, str]
"""Lag and name."""
Arms = Mapping[Arm, Mapping[int, LagFigures]]
"""The runs of each arm, by seed."""
COMPARED = ("best_half", "best", "useful")
DECIDES = "best"
_UNKNOWN = float("nan")
NO_PAIRS = Difference(_UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, 0)


def figures_of(trial: Trial, folder: Path) -> LagFigures:
    """Those of a finished run."""
    database, best = connect(folder), best_after(folder)
    [age] = database.execute("select avg(staleness) from leases where state = 'trained'").fetchone()
    k3, ess = database.execute("select avg(k3), avg(ess) from groups where state = 'trained'").fetchone()
    [shortened] = database.execute("select count(*) from groups where step_scale < 1").fetchone()
    return LagFigures(
        lag=trial.lag,
        arm=trial.arm,
        seed=trial.seed,
        best_half=float(best[trial.design.candidates // 2 - 1]),
        best=float(best[trial.design.candidates - 1]),
        useful=float(np.mean([move.useful for move in moves_of(folder).part(1, 2)])),
        age=float(age),
        k3=float(k3),
        ess=float(ess),
        shortened=int(shortened),
    )


def report(folders: Mapping[Trial, Path], control: str, table: Path | None = None) -> str:
    """The tables of the runs that have finished. `table` is a CSV file to write."""
    rows = [figures_of(trial, folder) for trial, folder in folders.items() if finished(folder)]
    if table is not None:
        with table.open("w", newline="") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(LagFigures)], lineterminator="\n")
            writer.writeheader()
            writer.writerows({name: _short(value) for name, value in asdict(row).items()} for row in rows)
    return tables(rows, control)


def tables(rows: Sequence[LagFigures], control: str) -> str:
    """What each arm found, each arm less the control of its lag, each lag less no lag, and learning less none."""
    arms: dict[Arm, dict[int, LagFigures]] = {}
    for row in rows:
        arms.setdefault((row.lag, row.arm), {})[row.seed] = row
    own = [(arm, (arm[0], control)) for arm in arms if arm[0] and arm[1] != control]
    fresh = [(lag, FRESH) for lag, name in arms if name == FRESH]
    stale = [(arm, (0, FRESH)) for arm in fresh if arm[0]]
    learns = [(arm, (0, STILL)) for arm in fresh]
    return joined([_found(arms), *(compared(arms, pairs) for pairs in (own, stale, learns))])


def _found(arms: Arms) -> Iterator[str]:
    yield "| lag | arm | runs | best after half | best | useful moves, last half | age | k3 | ESS | shortened |"
    yield "|---" * 10 + "|"
    for (lag, name), runs in sorted(arms.items(), key=lambda arm: arm[0][0]):
        cells = [spread([getattr(row, field) for row in runs.values()]) for field in COMPARED]
        means = [np.mean([getattr(row, field) for row in runs.values()]) for field in ("age", "k3", "ess", "shortened")]
        yield f"| {lag} | {name} | {len(runs)} | {' | '.join((*cells, *(f'{mean:.3g}' for mean in means)))} |"


def compared(arms: Arms, pairs: Sequence[tuple[Arm, Arm]]) -> Iterator[str]:
    """Each arm less its control. The verdict is on the best score after all candidates."""
    gaps = {pair: {field: _gap(arms, *pair, field) for field in COMPARED} for pair in pairs}
    known = [pair for pair, by_field in gaps.items() if by_field[DECIDES].pairs > 1]
    if not known:
        return
    yield "| difference, 95 % | pairs | best after half | best | useful moves | p, Holm | verdict |"
    yield "|---" * 7 + "|"
    for pair, p in zip(known, _holm([gaps[pair][DECIDES].p for pair in known]), strict=True):
        cells = " | ".join(map(str, gaps[pair].values()))
        verdict = "told apart" if p < LEVEL else "not told apart"
        yield f"| {_named(pair[0])} − {_named(pair[1])} | {gaps[pair][DECIDES].pairs} | {cells} | {p:.2g} | {verdict} |"


def _holm(values: Sequence[float]) -> Sequence[float]:
    """Holm's correction, where pairs that all differ by the same have 1 if that is 0."""
    return holm([1.0 if isnan(value) else value for value in values])


def _gap(arms: Arms, ours: Arm, theirs: Arm, field: str) -> Difference:
    def of(arm: Arm) -> Mapping[int, float]:
        return {seed: float(getattr(row, field)) for seed, row in arms.get(arm, {}).items()}

    return difference(of(ours), of(theirs)) or NO_PAIRS


def _named(arm: Arm) -> str:
    return f"{arm[1]} at {arm[0]}"


def _short(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value
