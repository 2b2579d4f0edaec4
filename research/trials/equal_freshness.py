"""Whether learning pays where parents are equally fresh: pace and no learning, where evaluations take long.

    python research/trials/equal_freshness.py --folder runs/science  # resumable: what has finished is not run again
    python research/trials/equal_freshness.py --folder runs/science --report-only

The plan is `FRESHNESS` of `research/trials/plan.py`, which was committed before the first of these runs. The task is
that of `equal_clock.py`: a program that sleeps before it answers. The sleep stands for a long evaluation on another
machine. `freshness.py` says of the same runs how many candidates end while one is on its way.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from research.benchmarks.bench_runs import Wanted, exit_code, made_folder, positive, run_all
from research.trials.curves import Curves, curves_of, differences, scores
from research.trials.equal_clock import sleeping_task
from research.trials.figures import LEVEL, difference
from research.trials.page import joined
from research.trials.plan import FRESHNESS, equal_freshness_arguments

ARMS = (FRESHNESS.theirs, FRESHNESS.ours)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=positive, default=20, help="runs at once; even, so that both arms are beside")
    parser.add_argument("--folder", type=Path, default=Path("runs/science"), help="of the runs")
    parser.add_argument("--report-only", action="store_true")
    chosen = parser.parse_args()
    seeds = range(FRESHNESS.first, FRESHNESS.first + FRESHNESS.seeds)
    folders = {(arm, seed): chosen.folder / f"{arm}_asleep-{seed}" for seed in seeds for arm in ARMS}
    failed: list[str] = []
    if not chosen.report_only:
        task = sleeping_task(made_folder(chosen.folder))
        runs = [Wanted(folder, equal_freshness_arguments(arm, task, seed)) for (arm, seed), folder in folders.items()]
        failed = run_all(runs, chosen.jobs)
    curves = curves_of(folders)
    tables = [scores(curves, FRESHNESS.marks), differences(curves, FRESHNESS.theirs, FRESHNESS.marks)]
    sys.stdout.write(joined([*tables, verdict(curves)]))
    return exit_code(failed)


def verdict(curves: Curves) -> Iterator[str]:
    """What the plan's comparison says once all pairs have finished."""
    ours, theirs = (
        {seed: float(curve[FRESHNESS.candidates - 1]) for seed, curve in curves.get(arm, {}).items()}
        for arm in (FRESHNESS.ours, FRESHNESS.theirs)
    )
    gap = difference(ours, theirs)
    if gap is None or gap.pairs < FRESHNESS.seeds:
        yield f"No verdict: {0 if gap is None else gap.pairs} of {FRESHNESS.seeds} pairs have finished."
    else:
        sure = "not told apart" if gap.p >= LEVEL else "reproduced" if gap.mean > 0 else "contradicted"
        claim = f"{FRESHNESS.ours} is ahead of {FRESHNESS.theirs} after {FRESHNESS.candidates}"
        yield f"{claim}: {sure}, {gap}, p = {gap.p:.2g}."


if __name__ == "__main__":
    sys.exit(main())
