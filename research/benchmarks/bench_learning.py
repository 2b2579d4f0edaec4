"""Does the advisor learn what to propose? `pace` against `none` and against rewards shuffled within each group.

    python research/benchmarks/bench_learning.py --seeds 100-109 --jobs 2  # resumable: finished runs are not run again
    python research/benchmarks/bench_learning.py --seeds 100-109 --report-only

Every arm is `pace run` as a user would run it, with one setting changed, on the same seeds, budget and bounds. The
figures are over the last quarter of rollouts by completion: mean reward, mean reward of valid candidates, share of
candidates that improve on their parent. Differences of arms have Welch's 95 % interval over seeds. The figures of
`none` rise by selection alone, so only differences count.
"""

import argparse
import math
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from research.benchmarks.bench_runs import (
    Wanted,
    connect,
    difference,
    finished,
    made_folder,
    positive,
    run_all,
    seeds_of,
    spread,
)

ARMS: dict[str, list[str]] = {
    "pace": ["--objective", "pace"],
    "none": ["--objective", "none"],
    "shuffled": ["--objective", "pace", "--set", "learner.shuffle_rewards=true"],
}


@dataclass(frozen=True, slots=True)
class Figures:
    """One run. Shares and means are over the last quarter of its rollouts, unless they say otherwise."""

    reward: float
    valid_reward: float
    valid: float
    improving: float
    best: float
    trained: int
    mechanisms: Counter[str]
    first_mechanisms: Counter[str]


MEASURES = (
    ("mean reward", "reward"),
    ("mean reward of valid", "valid_reward"),
    ("share improving on parent", "improving"),
    ("share valid", "valid"),
    ("best score of the run", "best"),
)


def main() -> int:
    """Run the missing runs, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="circle_packing")
    parser.add_argument("--seeds", default="100-109", help="first-last")
    parser.add_argument("--candidates", type=positive, default=480)
    parser.add_argument("--arms", default="pace,none,shuffled")
    parser.add_argument("--jobs", type=positive, default=2)
    parser.add_argument("--folder", type=Path, default=Path("runs/bench_learning"))
    parser.add_argument("--set", action="append", default=[], dest="sets", metavar="KEY=VALUE")
    parser.add_argument("--report-only", action="store_true")
    chosen = parser.parse_args()
    seeds = seeds_of(chosen.seeds)
    arms = chosen.arms.split(",")
    if not chosen.report_only:
        made_folder(chosen.folder)
        failed = run_all([wanted(chosen, arm, seed) for seed in seeds for arm in arms], chosen.jobs)
        if failed:
            sys.stderr.write(f"failed: {', '.join(failed)}\n")
            return 1
    figures = {
        arm: [figures_of(folder_of(chosen, arm, seed)) for seed in seeds if finished(folder_of(chosen, arm, seed))]
        for arm in arms
    }
    sys.stdout.write(report(figures))
    return 0


def folder_of(chosen: argparse.Namespace, arm: str, seed: int) -> Path:
    """The folder of one run."""
    return chosen.folder / f"{chosen.task}-{arm}-{seed}"


def wanted(chosen: argparse.Namespace, arm: str, seed: int) -> Wanted:
    """One arm at one seed."""
    arguments = [chosen.task, *ARMS[arm], "--seed", str(seed), "--candidates", str(chosen.candidates)]
    for item in (f"evaluation.memo={chosen.folder / 'memo.db'}", *chosen.sets):
        arguments.append(f"--set={item}")
    return Wanted(folder_of(chosen, arm, seed), arguments)


def figures_of(folder: Path) -> Figures:
    """Read one run."""
    database = connect(folder)
    rows = database.execute(
        """
        select c.outcome, c.score, c.reward, c.mechanism, p.score
        from candidates c left join candidates p on p.run_id = c.run_id and p.candidate = c.parent
        where c.lease is not null order by c.at, c.candidate
        """
    ).fetchall()
    quarter = rows[-(len(rows) // 4) :]
    valid = [row for row in quarter if row[0] == "ok"]
    (trained,) = database.execute("select count(*) from groups where state = 'trained'").fetchone()
    return Figures(
        reward=float(np.mean([row[2] for row in quarter])),
        valid_reward=float(np.mean([row[2] for row in valid])) if valid else math.nan,
        valid=len(valid) / len(quarter),
        improving=sum(row[4] is not None and row[1] > row[4] for row in valid) / len(quarter),
        best=max(row[1] for row in rows if row[1] is not None),
        trained=trained,
        mechanisms=Counter(row[3] for row in quarter if row[3]),
        first_mechanisms=Counter(row[3] for row in rows[: len(rows) // 4] if row[3]),
    )


def report(figures: dict[str, list[Figures]]) -> str:
    """The tables, in Markdown."""
    lines = [f"Seeds per arm: {', '.join(f'{arm} {len(runs)}' for arm, runs in figures.items())}", ""]
    lines += ["| measure | " + " | ".join(figures) + " |", "|---|" + "---|" * len(figures)]
    for title, name in MEASURES:
        cells = [spread([getattr(run, name) for run in runs]) for runs in figures.values()]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    lines.append(
        "| groups trained | " + " | ".join(spread([run.trained for run in r]) for r in figures.values()) + " |"
    )
    if "pace" in figures and len(figures["pace"]) > 1:
        lines += ["", "| difference (95 % interval, Welch) | " + " | ".join(title for title, _ in MEASURES) + " |"]
        lines.append("|---|" + "---|" * len(MEASURES))
        for other in [arm for arm in figures if arm != "pace" and len(figures[arm]) > 1]:
            cells = [
                difference([getattr(r, n) for r in figures["pace"]], [getattr(r, n) for r in figures[other]])
                for _, n in MEASURES
            ]
            lines.append(f"| pace − {other} | " + " | ".join(cells) + " |")
    lines += ["", *mechanism_table(figures)]
    return "\n".join(lines) + "\n"


def mechanism_table(figures: dict[str, list[Figures]]) -> list[str]:
    """How the shares of the tried mechanisms changed from the first to the last quarter, over all seeds."""
    firsts = {arm: sum((run.first_mechanisms for run in runs), Counter[str]()) for arm, runs in figures.items()}
    lasts = {arm: sum((run.mechanisms for run in runs), Counter[str]()) for arm, runs in figures.items()}
    names = sorted({name for counts in (*firsts.values(), *lasts.values()) for name in counts})
    lines = ["| mechanism: share in the first → last quarter | " + " | ".join(figures) + " |"]
    lines.append("|---|" + "---|" * len(figures))
    for name in names:
        cells = [f"{share(firsts[arm], name):.3f} → {share(lasts[arm], name):.3f}" for arm in figures]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    moved = [
        f"{sum(abs(share(firsts[arm], name) - share(lasts[arm], name)) for name in names) / 2:.3f}" for arm in figures
    ]
    entropy = [f"{relative_entropy(firsts[arm]):.3f} → {relative_entropy(lasts[arm]):.3f}" for arm in figures]
    lines.append("| total variation | " + " | ".join(moved) + " |")
    lines.append("| entropy / uniform | " + " | ".join(entropy) + " |")
    return lines


def share(counts: Counter[str], name: str) -> float:
    """A mechanism's share."""
    return counts[name] / max(1, sum(counts.values()))


def relative_entropy(counts: Counter[str]) -> float:
    """Entropy of the shares divided by the entropy of as many equal shares."""
    values = np.array([value for value in counts.values() if value], dtype=float)
    shares = values / values.sum()
    return float(-(shares * np.log(shares)).sum() / math.log(len(shares))) if len(shares) > 1 else 0.0


if __name__ == "__main__":
    sys.exit(main())
