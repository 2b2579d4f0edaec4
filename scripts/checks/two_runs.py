"""Two real runs on one Ray cluster of two nodes with two slots each: python scripts/checks/two_runs.py --candidates 24

The first asks for three slots, and the second, which begins once the first has scored a candidate, for four. Both end
and are sound (`verify_run.py`). Of each node it prints how many evaluations of either run were there, and how many were
there at once, by the rows of both. No node may have more at once than it has processors.
"""

import argparse
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from scripts.benchmarks.ray_machines import cluster_of

ROOT = Path(__file__).parents[2]
SLOTS = 2
SLOW = """

_fast_score = score


def score(instances, outputs):
    import time
    time.sleep({seconds})
    return _fast_score(instances, outputs)
"""
ATTEMPTS = "select node, started_at, ended_at, outcome from evaluation_attempts where lease > 0 and node is not null"


def slow_task(folder: Path, seconds: float) -> Path:
    """Circle packing whose evaluator sleeps."""
    shutil.copytree(ROOT / "tasks" / "circle_packing", folder)
    with (folder / "evaluator.py").open("a") as evaluator:
        evaluator.write(SLOW.format(seconds=seconds))
    text = (folder / "task.yaml").read_text().replace("deterministic: true\n", "")
    (folder / "task.yaml").write_text(f"{text}\ndeterministic: false\n")
    return folder


def begun(task: Path, folder: Path, candidates: int, slots: int, address: str) -> "subprocess.Popen[str]":
    """A run."""
    command = [sys.executable, "-m", "pace_async", "run", str(task), "--evaluators", "ray", "--advisor", "bandit"]
    command += ["--candidates", str(candidates), "--set", f"evaluation.slots={slots}", "--run-dir", str(folder)]
    command += ["--async", "--display", "plain"]
    environment = {**os.environ, "RAY_ADDRESS": address}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(process: "subprocess.Popen[str]", folder: Path, candidates: int) -> None:
    """Wait, and exit with what it said unless it is sound."""
    said, _ = process.communicate()
    check = [sys.executable, str(ROOT / "scripts/checks/verify_run.py"), str(folder), "--candidates", str(candidates)]
    verified = subprocess.run(check, capture_output=True, text=True, check=False)
    if process.returncode or verified.returncode:
        sys.exit(f"{said}\n{verified.stdout}{verified.stderr}")


def attempts(folder: Path) -> list[tuple[str, float, float, str]]:
    """Node, begin, end and outcome of each."""
    with sqlite3.connect(folder / "population.db") as database:
        return database.execute(ATTEMPTS).fetchall()


def most_at_once(made: list[tuple[str, float, float, str]]) -> int:
    """Of these attempts."""
    changes = sorted([(begin, 1) for _, begin, _, _ in made] + [(end, -1) for _, _, end, _ in made])
    inside = most = 0
    for _, change in changes:
        inside += change
        most = max(most, inside)
    return most


def main() -> None:
    """Exit code 1 if a run failed, or a node had more evaluations at once than processors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=24)
    parser.add_argument("--sleep", type=float, default=2.0)
    given = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} at the beginning", flush=True)
    with tempfile.TemporaryDirectory() as name, cluster_of(SLOTS, SLOTS) as machines:
        folder, began = Path(name), time.monotonic()
        task = slow_task(folder / "task", given.sleep)
        first = begun(task, folder / "first", given.candidates, 3, machines.address)
        assert first.stdout is not None
        said = ""
        while "scored" not in (line := first.stdout.readline()):
            said += line
            if not line:
                sys.exit(f"the first run has ended:\n{said}")
        second = begun(task, folder / "second", given.candidates, 4, machines.address)
        for process, run in ((first, "first"), (second, "second")):
            ended(process, folder / run, given.candidates)
            print(f"{run} run: sound after {time.monotonic() - began:.0f} s", flush=True)
        by_node: dict[str, dict[str, list[tuple[str, float, float, str]]]] = defaultdict(lambda: defaultdict(list))
        for run in ("first", "second"):
            for one in attempts(folder / run):
                by_node[one[0]][run].append(one)
        most = {node: most_at_once([one for made in runs.values() for one in made]) for node, runs in by_node.items()}
        for node, runs in sorted(by_node.items()):
            counted = ", ".join(f"{len(made)} of the {run} run" for run, made in sorted(runs.items()))
            print(f"node {node}: {counted}; at most {most[node]} at once on {SLOTS} processors")
    sys.exit(1 if max(most.values()) > SLOTS else 0)


if __name__ == "__main__":
    main()
