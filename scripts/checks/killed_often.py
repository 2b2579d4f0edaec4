"""One real run, killed again and again: `kill -9` some seconds after each first commit, then `pace resume`.

python scripts/checks/killed_often.py --work /tmp/killed-often  # 15 kills, one each 6 s, 100 candidates, in SQLite
python scripts/checks/killed_often.py --work /tmp/killed-often --db postgresql://USER@HOST/NAME

The seconds count from the first commit of each process, because a start alone takes longer. The evaluator sleeps, so
that every kill comes before the last candidate and leaves evaluations behind.
After each kill no process of the run may be alive, and every candidate that was there stays as it was. After the last
kill the run goes on to its end. It is sound if `pace db check` and verify_run.py pass (for PostgreSQL on a copy that
`pace db copy` makes). Prints a line for each process and one table row.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil

PACE = str(Path(sys.executable).with_name("pace"))
VERIFY = str(Path(__file__).with_name("verify_run.py"))
ROOT = Path(__file__).parents[2]
SLOW = """

_fast_score = score


def score(instances, outputs):
    import time

    time.sleep({seconds})
    return _fast_score(instances, outputs)
"""
SMALL = ("--set", "learner.group_size=4", "--set", "learner.k=2")
LONGEST_S = 600.0
KEPT = "select candidate, program_hash, score, lease from candidates order by candidate"


def slow_task(name: str, folder: Path, seconds: float) -> Path:
    """A task of the repository whose evaluator sleeps."""
    shutil.copytree(ROOT / "tasks" / name, folder)
    with (folder / "evaluator.py").open("a") as evaluator:
        evaluator.write(SLOW.format(seconds=seconds))
    return folder


def commits(folder: Path) -> int:
    """How many rollouts were opened, by the log of events, which follows each commit."""
    log = folder / "events.jsonl"
    return log.read_bytes().count(b'"event":"LeaseOpened"') if log.exists() else 0


def pace(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([PACE, *words], capture_output=True, text=True, timeout=LONGEST_S, check=False)


def kept(folder: Path) -> dict[int, tuple[object, ...]]:
    """The committed candidates. Exits if they cannot be read."""
    asked = pace("db", "sql", str(folder), KEPT, "--json")
    if asked.returncode:
        sys.exit(f"cannot be read: {asked.stderr}")
    return {row["candidate"]: tuple(row.values()) for row in json.loads(asked.stdout)}


def killed(command: list[str], folder: Path, screen: Path, seconds: float) -> tuple[float, list[int], bool]:
    """One process, killed so long after its first commit. Returns the seconds until that commit, the processes that
    outlived it for 10 s, and whether it ended before by itself."""
    before, began = commits(folder), time.monotonic()
    with screen.open("ab") as said, subprocess.Popen(command, stdout=said, stderr=said) as process:
        while commits(folder) == before and process.poll() is None and time.monotonic() < began + LONGEST_S:
            time.sleep(0.05)
        first = time.monotonic() - began
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            family = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            _, alive = psutil.wait_procs(family, timeout=10)
            return first, [child.pid for child in alive], False
    return first, [], True


def sound(folder: Path, candidates: int, copy: Path | None) -> str:
    check = pace("db", "check", str(folder))
    wrong = check.stdout.splitlines() if check.returncode else []
    if copy is not None:
        copied = pace("db", "copy", str(folder), str(copy))
        wrong += copied.stderr.splitlines() if copied.returncode else []
    verify = [sys.executable, VERIFY, str(copy or folder), "--candidates", str(candidates), "--groups", "1"]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    wrong += [line for line in done.stdout.splitlines() if line.startswith("BAD")] or done.stderr.splitlines()
    return f"NOT SOUND: {'; '.join(wrong)}" if wrong else "sound"


def main() -> int:
    """Exit status 1 if anything was lost, left alive, or is not sound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("/tmp/killed-often"))
    parser.add_argument("--task", default="circle_packing")
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--sleep", type=float, default=3.0, help="seconds that an evaluation takes longer")
    parser.add_argument("--db", help="PostgreSQL for the population")
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    folder, screen = options.work / "run", options.work / "screen"
    database = ["--db", options.db] if options.db else []
    task = slow_task(options.task, options.work / options.task, options.sleep)
    command = [PACE, "run", str(task), "--candidates", str(options.candidates), "--threads", str(options.threads)]
    command += ["--display", "plain", "--run-dir", str(folder), *database, *SMALL]
    again = [PACE, "resume", str(folder), "--display", "plain"]
    known: dict[int, tuple[object, ...]] = {}
    lost, left, kills = 0, 0, 0
    for number in range(1, options.kills + 1):
        first, alive, ended = killed(command if number == 1 else again, folder, screen, options.seconds)
        if ended:
            break
        kills += 1
        there = kept(folder)
        lost += sum(there.get(candidate) != row for candidate, row in known.items())
        left += len(alive)
        known = there
        sys.stderr.write(f"kill {number}: first commit after {first:.1f} s, {len(there) - 1} candidates, {alive}\n")
    last = subprocess.run(again, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    there = kept(folder)
    lost += sum(there.get(candidate) != row for candidate, row in known.items())
    verdict = sound(folder, options.candidates, options.work / "copy" if options.db else None)
    kind = "PostgreSQL" if options.db else "SQLite"
    ends = f"exit {last.returncode}, {len(there) - 1} candidates, {verdict}"
    sys.stdout.write(f"| {kind} | {kills} | {lost} | {left} | {len(known) - 1} | {ends} |\n")
    return 0 if kills == options.kills and not (lost or left or last.returncode) and verdict == "sound" else 1


if __name__ == "__main__":
    sys.exit(main())
