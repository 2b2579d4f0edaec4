"""Compares the fronts of recorded runs in some metrics: those of one score with those of several objectives.

    python research/benchmarks/fronts_of_runs.py --by balancedness:0.3:1 speed:0:1 \
        --runs runs/eplb-? --beside runs/eplb_front-?

`--by` names metrics, each with its worse and its better bound. All candidates with a score count,
whatever their run went by. Printed are the hypervolume of each run and the size of its front, the mean and standard
deviation of each group, and the mean difference with a 95 % interval (Welch's).
"""

import argparse
import json
import sys
from collections.abc import Sequence

import pace_async
from pace_async.aims import Aim, costs_of
from pace_async.search.front import front_of, hypervolume
from pace_async.search.state import Member
from research.benchmarks.bench_runs import difference, spread


def aim_of(text: str) -> Aim:
    """An objective from "metric:worse:better"."""
    metric, worse, better = text.split(":")
    lower, upper = sorted(bounds := (float(worse), float(better)))
    return Aim(metric, bounds == (lower, upper), lower, upper)


def front_of_run(run: str, aims: Sequence[Aim]) -> tuple[float, int]:
    """The hypervolume of a run's front in these metrics, and how many programs are on it."""
    rows = pace_async.open(run).sql("select candidate, metrics from candidates where score is not null")
    members = [Member(row["candidate"], "", 0.0, costs=costs_of(aims, json.loads(row["metrics"]))) for row in rows]
    front = front_of([member for member in members if member.costs])
    return hypervolume([member.costs for member in front]), len(front)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--by", nargs="+", type=aim_of, required=True, metavar="METRIC:WORSE:BETTER")
    parser.add_argument("--runs", nargs="+", required=True)
    parser.add_argument("--beside", nargs="+", default=[])
    chosen = parser.parse_args()
    found: list[list[float]] = []
    for group in filter(None, (chosen.runs, chosen.beside)):
        found.append([])
        for run in group:
            volume, size = front_of_run(run, chosen.by)
            found[-1].append(volume)
            print(f"{run}: hypervolume {volume:.3f}, {size} on the front", flush=True)
    print(*(spread(volumes) for volumes in found), sep="\n")
    if all(len(volumes) > 1 for volumes in found) and len(found) > 1:
        print(f"difference {difference(found[1], found[0])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
