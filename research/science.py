"""Tests the claim on which the project rests: training the advisor while it searches pays off.

    python research/science.py verdicts --shard 1/2  # the fresh seeds; resumable: what has finished is not run again
    python research/science.py verdicts --family objectives
    python research/science.py explore --arms none,pace,compression --seeds 1000-1004 --candidates 480
    python research/science.py develop --arms "none,pace at 0.0003" --seeds 0-2 --candidates 480
    python research/science.py verdicts --report-only

Arms, seeds, marks and analysis are those of `research/trials/plan.py`, which were committed before fresh seeds ran.
Each run is `pace run` as a user would run it, in its own folder with all its rows. Ctrl-C and SIGTERM lose nothing, and
the same command goes on. To join shards, copy their folders into one.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from research.benchmarks.bench_runs import (
    exit_code,
    known_names,
    made_folder,
    part_of,
    positive,
    refuse,
    run_all,
    seeds_of,
)
from research.trials.figures import arm_figures
from research.trials.noise import NOISY, noisy_task
from research.trials.page import Runs, differences, joined, table, verdicts
from research.trials.plan import (
    CANDIDATES,
    EXPLORED,
    EXPLORED_TESTBEDS,
    FAMILIES,
    FRESH,
    TESTBEDS,
    arm_arguments,
    confirmatory,
    run_of,
)

Trial = tuple[str, str, int]
"""Testbed, arm and seed of one run."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("verdicts", "explore", "develop"), help="which runs")
    parser.add_argument("--family", choices=tuple(FAMILIES), default="learning", help="of verdicts")
    parser.add_argument("--testbeds", default=",".join(TESTBEDS), help="by comma")
    parser.add_argument("--arms", default="none,pace", help="by comma; of explore and develop")
    parser.add_argument("--seeds", help=f"first-last; of explore (from {FRESH} on) and develop (below)")
    parser.add_argument(
        "--candidates", type=positive, default=CANDIDATES, help="of a run; of develop, and 480 of explore"
    )
    parser.add_argument("--jobs", type=positive, default=2, help="runs at once")
    parser.add_argument("--shard", default="1/1", help="i/n: the i-th of n parts of the runs")
    parser.add_argument("--folder", type=Path, default=Path("runs/science"), help="of the runs")
    parser.add_argument("--report-only", action="store_true")
    chosen = parser.parse_args()
    trials = asked(chosen)
    failed: list[str] = []
    if not chosen.report_only:
        made_folder(chosen.folder)
        if any(testbed == NOISY for testbed, _, _ in trials):
            noisy_task(chosen.folder)
        every = [run_of(chosen.folder, *trial, chosen.candidates) for trial in trials]
        failed = run_all(part_of(every, chosen.shard), chosen.jobs)
    sys.stdout.write(report(chosen, trials))
    return exit_code(failed)


def asked(chosen: argparse.Namespace) -> Sequence[Trial]:
    """The runs, those of the first seed first, so that what has run so far is paired."""
    if chosen.kind == "verdicts":
        if chosen.seeds or chosen.candidates != CANDIDATES:
            refuse("the seeds and the length of verdicts are those of the plan: leave out --seeds and --candidates")
        return confirmatory(FAMILIES[chosen.family])
    testbeds = known_names(chosen.testbeds, EXPLORED_TESTBEDS, "testbed")
    arms = known_names(chosen.arms, tuple(arm_arguments()), "arm")
    fresh = chosen.kind == "explore"
    seeds = seeds_of(chosen.seeds or (f"{FRESH}-{FRESH + 4}" if fresh else "0-2"))
    if any((seed >= FRESH) != fresh for seed in seeds):
        refuse(f"seeds of develop are below {FRESH}, and those of explore are not")
    if fresh and chosen.candidates not in EXPLORED:
        refuse(f"the lengths of explore are those of the plan: {' or '.join(map(str, EXPLORED))} candidates")
    return [(testbed, arm, seed) for seed in seeds for testbed in testbeds for arm in arms]


def report(chosen: argparse.Namespace, trials: Sequence[Trial]) -> str:
    """The tables of what has finished."""
    seeds: dict[tuple[str, str], list[int]] = {}
    for testbed, arm, seed in trials:
        seeds.setdefault((testbed, arm), []).append(seed)
    found = {
        (testbed, arm): arm_figures(chosen.folder, testbed, arm, every, chosen.candidates)
        for (testbed, arm), every in seeds.items()
    }
    parts: list[Iterator[str]] = []
    for testbed in dict.fromkeys(testbed for testbed, _ in found):
        runs: dict[str, Runs] = {arm: by_seed for (where, arm), by_seed in found.items() if where == testbed}
        parts += [iter([f"### {testbed}"]), table(runs, chosen.candidates)]
        parts += [differences(runs, other, chosen.candidates) for other in ("none", "pace") if other in runs]
    if chosen.kind == "verdicts":
        parts.append(verdicts(FAMILIES[chosen.family].comparisons, found))
    return joined(parts)


if __name__ == "__main__":
    sys.exit(main())
