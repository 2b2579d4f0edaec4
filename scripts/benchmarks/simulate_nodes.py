"""Writes the table of docs/async-or-sync.md: a search on 64 simulated nodes that fail.

    python scripts/benchmarks/simulate_nodes.py
    python scripts/benchmarks/simulate_nodes.py --candidates 500 --to -

Each row is one `pace simulate` of 1,024 slots, with the flags that the row names. A row takes about half a minute of
processor time, and is the same on every machine. The lines between the two marks of the page are replaced.
"""

import argparse
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pace_async.simulate.durations import Durations
from pace_async.simulate.nodes import NodesShape
from pace_async.simulate.predict import Scenario, predict

PAGE = Path("docs/async-or-sync.md")
BEGINS, ENDS = "<!-- simulate_nodes.py writes from here -->", "<!-- to here -->"
MEAN_S = 1800.0
HEADER = (
    "| failures | `--max-staleness` | candidates an hour | of the roofline | over sync | slots busy "
    "| lost seconds | attempts lost |\n|---|---|---|---|---|---|---|---|"
)
NONE: Mapping[str, float] = {}
DEATHS, PREEMPTED = {"mtbf_s": 6 * 3600.0}, {"preempt": 0.05}
ROWS: tuple[tuple[str, Mapping[str, float], int], ...] = (
    ("none", NONE, 15),
    ("`--preempt 0.05`", PREEMPTED, 15),
    ("`--node-mtbf 6h`", DEATHS, 15),
    ("`--node-mtbf 6h --preempt 0.05`", DEATHS | PREEMPTED, 15),
    ("`--node-mtbf 6h --preempt 0.05`", DEATHS | PREEMPTED, 31),
    ("`--node-mtbf 6h --preempt 0.05`", DEATHS | PREEMPTED, 63),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=10_000)
    parser.add_argument("--to", type=Path, default=PAGE, help="the page, or - for standard output")
    chosen = parser.parse_args()
    lines = [HEADER]
    for name, failures, bound in ROWS:
        lines.append(row(name, bound, predict(scenario(failures, bound, chosen.candidates))))
        print(lines[-1], file=sys.stderr)
    table = "\n".join(lines)
    if str(chosen.to) == "-":
        print(table)
        return 0
    before, _, rest = chosen.to.read_text(encoding="utf-8").partition(BEGINS)
    _, found, after = rest.partition(ENDS)
    if not found:
        print(f"{chosen.to} has no place for the table: {shlex.quote(BEGINS)} begins it.", file=sys.stderr)
        return 2
    chosen.to.write_text(f"{before}{BEGINS}\n{table}\n{ENDS}{after}", encoding="utf-8")
    return 0


def scenario(failures: Mapping[str, float], bound: int, candidates: int) -> Scenario:
    """What `pace simulate --nodes 64 --slots-per-node 16 --threads 1024 --group-size 64 --eval-mean 1800` runs."""
    nodes = NodesShape(64, 16, failures.get("mtbf_s"), preempt=failures.get("preempt", 0.0))
    durations = Durations(
        seed=0,
        evaluation_mean=MEAN_S,
        evaluation_cv=0.6,
        evaluation_cap=None,
        generation=0.05 * MEAN_S,
        learning=0.03 * MEAN_S,
        pause=0.003 * MEAN_S,
    )
    return Scenario(1024, 64, bound, durations, candidates, slots=nodes.slots, nodes=nodes)


def row(name: str, bound: int, found: Mapping[str, Any]) -> str:
    """One line of the table."""
    nodes = found["nodes"]
    lost = nodes["lost_to_node_deaths"] + nodes["lost_to_preemption"]
    rate, roof = found["candidates_per_hour"], found["roofline"]
    busy = found["evaluator_utilisation"] / (1 - nodes["waste"])
    return (
        f"| {name} | {bound} | {rate:,.0f} | {100 * rate / roof:.0f} % of {roof:,.0f} | {found['speedup']:.1f} × "
        f"| {100 * busy:.0f} % | {100 * nodes['waste']:.1f} % | {lost:,} of {nodes['attempts']:,} |"
    )


if __name__ == "__main__":
    sys.exit(main())
