"""Best scores of runs after so many candidates, and differences of arms, as Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from research.benchmarks.bench_runs import connect, finished, spread
from research.trials.figures import difference

Curves = Mapping[str, Mapping[int, np.ndarray]]
"""Of each arm and seed, the best score after each candidate."""


def curves_of(folders: Mapping[tuple[str, int], Path]) -> Curves:
    """The curves of the runs that have finished, by arm and seed."""
    curves: dict[str, dict[int, np.ndarray]] = {}
    for (arm, seed), folder in folders.items():
        if finished(folder):
            curves.setdefault(arm, {})[seed] = best_after(folder)
    return curves


def best_after(run: Path) -> np.ndarray:
    """The best score after each candidate, (candidates,)."""
    rows = connect(run).execute("select score from candidates order by lease is not null, at, candidate").fetchall()
    return np.maximum.accumulate([-np.inf if score is None else score for (score,) in rows])[1:]


def scores(curves: Curves, marks: Sequence[int]) -> Iterator[str]:
    """Best scores of each arm after some numbers of candidates, mean and standard deviation."""
    yield f"| arm | runs |{''.join(f' best after {mark} |' for mark in marks)}"
    yield f"|---|---|{'---|' * len(marks)}"
    for arm, runs in curves.items():
        cells = [spread([float(curve[mark - 1]) for curve in runs.values()]) for mark in marks]
        yield f"| {arm} | {len(runs)} | {' | '.join(cells)} |"


def differences(curves: Curves, theirs: str, marks: Sequence[int]) -> Iterator[str]:
    """Differences of each arm from `theirs`, paired by seed, with their 95 % intervals."""
    yield f"| less `{theirs}`, paired, 95 % | pairs |{''.join(f' after {mark} |' for mark in marks)}"
    yield f"|---|---|{'---|' * len(marks)}"
    for arm in curves:
        found = [difference(_at(curves, arm, mark), _at(curves, theirs, mark)) for mark in marks]
        if arm != theirs and found[0] is not None:
            yield f"| {arm} | {found[0].pairs} | {' | '.join(map(str, found))} |"


def _at(curves: Curves, arm: str, mark: int) -> Mapping[int, float]:
    return {seed: float(curve[mark - 1]) for seed, curve in curves.get(arm, {}).items()}
