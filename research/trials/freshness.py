"""How fresh the parents of runs are, as Markdown: what else ended while a rollout was on its way.

    python research/trials/freshness.py RUN RUN ... --candidates 480

A rollout chooses its parent when it begins. What ends meanwhile may be better, and then a useful move is no new best.
Runs of one name up to its numbers are an arm. Cells are means over an arm's runs, with their standard deviation.
"""

import argparse
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from research.benchmarks.bench_runs import connect, positive, spread
from research.trials.mechanism import arm_of

ROLLOUTS = """
select c.at, c.score, p.score, l.opened_at
from candidates c join leases l on l.lease = c.lease join candidates p on p.candidate = c.parent
order by c.at, c.candidate"""
COLUMNS = ("candidates that end meanwhile", "parent behind the best, at the end", "useful moves", "new bests of these")
Rollout = tuple[float, float | None, float, float]
"""When it ended, its score, its parent's, and when it began."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--candidates", type=positive, help="the first so many of each run")
    chosen = parser.parse_args()
    arms: dict[str, list[Sequence[float]]] = {}
    for run in chosen.runs:
        rollouts = connect(run).execute(ROLLOUTS).fetchall()[: chosen.candidates]
        arms.setdefault(arm_of(run.name)[0], []).append(fresh(rollouts))
    sys.stdout.write("\n".join(table(arms)) + "\n")
    return 0


def fresh(rollouts: Sequence[Rollout]) -> Sequence[float]:
    """The figures of COLUMNS for rollouts in the order of their ends. The first parent is the seed program."""
    ended = [at for at, *_ in rollouts]
    meanwhile = [place - bisect_right(ended, began) for place, (*_, began) in enumerate(rollouts)]
    best, behind, useful, new = rollouts[0][2], list[float](), 0, 0
    for _, score, parent, _ in rollouts:
        behind.append(best - parent)
        useful += score is not None and score > parent
        if score is not None and score > best:
            best, new = score, new + 1
    return float(np.mean(meanwhile)), float(np.mean(behind)), useful / len(rollouts), new / max(useful, 1)


def table(arms: Mapping[str, Sequence[Sequence[float]]]) -> Iterator[str]:
    """One row an arm."""
    yield f"| arm | runs | {' | '.join(COLUMNS)} |"
    yield "|---" * (len(COLUMNS) + 2) + "|"
    for arm, runs in arms.items():
        cells = [spread([run[column] for run in runs]) for column in range(len(COLUMNS))]
        yield f"| {arm} | {len(runs)} | {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
