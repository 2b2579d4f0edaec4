"""Measures the learning signal in rewards: the part that comes from the parent, and the part from the mechanism.

    python research/benchmarks/learning_signal.py RUN [RUN ...]        best with runs of one task without learning

Printed: the variance of the rewards of valid candidates within groups of 8 by completion, and that of their parents'
rewards, which is noise to a learner; the share of the variance of the gain (reward less the parent's) that the choice
of mechanism explains, which is the signal; and each mechanism's mean gain.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from research.benchmarks.bench_runs import connect

GROUP = 8
ROWS = """
select c.mechanism, c.reward, p.reward from candidates c
join candidates p on p.run_id = c.run_id and p.candidate = c.parent
where c.lease is not null and c.outcome = 'ok' order by c.at, c.candidate"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    of_children: list[float] = []
    of_parents: list[float] = []
    gains: defaultdict[str, list[float]] = defaultdict(list)
    for run in parser.parse_args().runs:
        rows = connect(run).execute(ROWS).fetchall()
        for first in range(0, len(rows) - GROUP + 1, GROUP):
            group = rows[first : first + GROUP]
            of_children.append(float(np.var([reward for _, reward, _ in group])))
            of_parents.append(float(np.var([parent for _, _, parent in group])))
        for mechanism, reward, parent in rows:
            gains[mechanism or "none named"].append(reward - parent)
    print(
        f"variance of rewards within a group: {np.mean(of_children):.2f}, of their parents': {np.mean(of_parents):.2f}"
    )
    print(f"share of the gain's variance explained by the mechanism: {explained(list(gains.values())):.3f}")
    for mechanism, values in sorted(gains.items(), key=lambda item: float(np.mean(item[1]))):
        print(f"  {mechanism:12} {np.mean(values):+.2f}  ({len(values)} candidates)")
    return 0


def explained(parts: Sequence[Sequence[float]]) -> float:
    """The share of the variance of all values that lies between the parts, corrected for chance, in [-1, 1] (adjusted
    R²)."""
    values = np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])
    within = sum(float(np.sum((np.asarray(part) - np.mean(part)) ** 2)) for part in parts)
    total = float(np.sum((values - values.mean()) ** 2))
    return 1.0 - (within / (len(values) - len(parts))) / (total / (len(values) - 1))


if __name__ == "__main__":
    sys.exit(main())
