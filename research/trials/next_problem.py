"""Does what was learned help on the next problem? The plan is in `research/trials/next_plan.py`.

    nice -n 19 python research/trials/next_problem.py  # what has finished is not run again
    python research/trials/next_problem.py --report-only

`pace run` has no way to give a bandit the counts of another run alone. The script runs it with the bandit's advice
replaced: its own counts and those of A are added. A run that was interrupted begins again.
"""

import argparse
import csv
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path

from research.benchmarks.bench_runs import exit_code, finished, made_folder, positive
from research.trials.curves import Curves, curves_of, scores
from research.trials.figures import LEVEL, Difference, difference, holm
from research.trials.next_plan import AFTER, BEFORE, COMPARED, EXPLORED, MARKS, PAIRS, arguments, folder_of

CHILD = "--as-pace"
"""With this and a run's folder before its arguments the script is `pace` whose bandit begins with that run's counts."""


def main() -> int:
    if sys.argv[1:2] == [CHILD]:
        pace_told(Path(sys.argv[2]), sys.argv[3:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=positive, default=PAIRS, help="how many, from the first seeds on")
    parser.add_argument("--folder", type=Path, default=Path("runs/next"), help="of the runs")
    parser.add_argument("--csv", type=Path, help="a file for one row a run on B")
    parser.add_argument("--before-only", action="store_true", help="the runs on A alone")
    parser.add_argument("--report-only", action="store_true")
    chosen = parser.parse_args()
    failed: list[str] = []
    if not chosen.report_only:
        made_folder(chosen.folder)
        for pair in range(chosen.pairs):
            arms = BEFORE if chosen.before_only else (*BEFORE, *AFTER)
            failed += [name for arm in arms if (name := _run(chosen.folder, arm, pair))]
    sys.stdout.write(report(chosen.folder, chosen.csv))
    return exit_code(failed)


def _run(runs: Path, arm: str, pair: int) -> str | None:
    """Run it unless it has finished. Returns its name if it failed."""
    folder = folder_of(runs, arm, pair)
    if finished(folder):
        return None
    shutil.rmtree(folder, ignore_errors=True)
    child = [CHILD, str(folder_of(runs, "counted", pair))] if arm == "told bandit" else []
    module = "research.trials.next_problem" if child else "pace_async"
    command = [sys.executable, "-m", module, *child, "run", *arguments(runs, arm, pair)]
    command += ["--run-dir", str(folder), "--display", "none"]
    began = time.monotonic()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    sys.stderr.write(f"{folder.name}: exit {ended.returncode} after {time.monotonic() - began:.0f} s\n")
    if ended.returncode:
        sys.stderr.write(ended.stderr[-500:])
        return folder.name
    return None


def pace_told(counted: Path, given: Sequence[str]) -> None:
    """Be `pace` with these arguments. A bandit begins with the counts of a finished run."""
    from pace_async.advise.advisor import Advice, Sampling
    from pace_async.advise.bandit import BanditAdvisor
    from pace_async.cli.main import main as pace
    from pace_async.population.reading.reader import open_readonly
    from pace_async.search.edit_bandit import UNTRIED, Results, Tries
    from pace_async.search.state import SearchContext

    with open_readonly(counted / "population.db") as reader:
        before = reader.record().run_state.visible.edits
    choose = BanditAdvisor.choose

    def told(
        self: BanditAdvisor, context: SearchContext, results: Results, *, lease: int, sampling: Sampling
    ) -> Advice:
        both = {arm: (before.get(arm, UNTRIED), results.get(arm, UNTRIED)) for arm in {**before, **results}}
        known = {arm: Tries(a.gains + b.gains, a.others + b.others) for arm, (a, b) in both.items()}
        return choose(self, context, known, lease=lease, sampling=sampling)

    BanditAdvisor.choose = told
    sys.argv = ["pace", *given]
    pace()


def report(runs: Path, table: Path | None = None) -> str:
    """The tables of the pairs whose four arms have finished. `table` is a CSV file to write."""
    folders = {(arm, pair): folder_of(runs, arm, pair) for arm in AFTER for pair in range(PAIRS)}
    every = curves_of(folders)
    whole = [pair for pair in range(PAIRS) if all(pair in every.get(arm, {}) for arm in AFTER)]
    curves = {arm: {pair: every[arm][pair] for pair in whole} for arm in AFTER} if whole else {}
    if table is not None:
        with table.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["arm", "pair", *(f"best_{mark}" for mark in MARKS)])
            for arm, by_pair in curves.items():
                writer.writerows([arm, pair, *(f"{c[m - 1]:.6g}" for m in MARKS)] for pair, c in by_pair.items())
    return "\n".join([*scores(curves, MARKS), "", *compared(curves)]) + "\n"


def compared(curves: Curves) -> Iterator[str]:
    """Each planned difference with its verdict, then those that are explored."""
    if not curves:
        return
    yield "| difference, paired, 95 % | after | pairs | bits | p, Holm | verdict |"
    yield "|---" * 6 + "|"
    planned = [(*arms, mark, _gap(curves, *arms, mark)) for arms in COMPARED for mark in MARKS]
    values = [1.0 if isnan(gap.p) else gap.p for *_, gap in planned]  # all pairs differ by the same
    for (ours, theirs, mark, gap), p in zip(planned, holm(values), strict=True):
        verdict = "told apart" if p < LEVEL else "not told apart"
        yield f"| {ours} − {theirs} | {mark} | {gap.pairs} | {gap} | {p:.2g} | {verdict} |"
    for (ours, theirs), mark in ((arms, mark) for arms in EXPLORED for mark in MARKS):
        gap = _gap(curves, ours, theirs, mark)
        yield f"| {ours} − {theirs} | {mark} | {gap.pairs} | {gap} | | exploratory |"


def _gap(curves: Curves, ours: str, theirs: str, mark: int) -> Difference:
    def at(arm: str) -> Mapping[int, float]:
        return {pair: float(curve[mark - 1]) for pair, curve in curves[arm].items()}

    found = difference(at(ours), at(theirs))
    assert found is not None
    return found


if __name__ == "__main__":
    sys.exit(main())
