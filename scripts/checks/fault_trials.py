"""Faults tried by hand on real runs, as one script: the last words on the screen, the exit code, and the resume.

python scripts/checks/fault_trials.py --work /tmp/fault-trials  # all that are not done yet, then the table
python scripts/checks/fault_trials.py --work /tmp/fault-trials --only 12  # one, again

Needs root on Linux: small disks are mounted and unmounted, and one trial is process 1 of a process namespace. Finished
trials stand in WORK/trials.json, so the script can be stopped and started again. A run that has not ended after
LONGEST_S seconds is killed and called hung. A trial is sound if `pace db check` and verify_run.py pass after the
resume.
"""

import argparse
import json
import os
import pty
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

LONGEST_S = 240.0
PATIENCE_S = 15
CANDIDATES = 16
PACE = str(Path(sys.executable).with_name("pace"))
VERIFY = str(Path(__file__).with_name("verify_run.py"))
SETTINGS = {
    "learner.group_size": 4,
    "learner.k": 2,
    "faults.patience_s": PATIENCE_S,
    "faults.drain_s": 30,
    "learner.step_timeout_s": 20,
    "advisor.timeout_s": 20,
}
FIRST = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
LEARNER, ENGINE, SCORER = "pace_async.learn.process", "engines.embedded", "pace_async.evaluate.scorer.scorer_process"
WARM = "from inside.warm import main"


@dataclass
class Trial:
    """The result of one trial."""

    number: int
    fault: str
    command: str
    date: str
    said: str
    code: int | None
    resume: str


class Run:
    """One `pace run` in a separate folder. Its output goes to a file beside the folder."""

    def __init__(self, folder: Path, *more: str, first: tuple[str, ...] = (), terminal: bool = False) -> None:
        self.folder, self.screen = folder, folder.with_suffix(".screen")
        sets = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
        self.arguments = ["run", "--candidates", str(CANDIDATES), "--threads", "4", "--display", "plain", *more]
        command = [*first, PACE, *self.arguments, "--run-dir", str(folder), *sets]
        self.terminal, own = pty.openpty() if terminal else (None, subprocess.DEVNULL)
        shell = ["setsid", "--ctty", "--wait", *command] if terminal else command
        with self.screen.open("wb") as screen:
            self.process = subprocess.Popen(
                shell, stdin=own, stdout=screen, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONUNBUFFERED": "1"}
            )

    def wait_for(self, what: Callable[[], object]) -> None:
        """Wait until the condition holds, or the run has ended."""
        end = time.monotonic() + LONGEST_S
        while not what() and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)

    def wait_words(self, words: str) -> None:
        self.wait_for(lambda: words in self.screen.read_text(errors="replace"))

    def wait_candidates(self, number: int) -> None:
        self.wait_for(lambda: candidates(self.folder) >= number)

    def children(self, words: str) -> list[psutil.Process]:
        """Its children with these words in the command line, without bubblewrap, which repeats the words of its child,
        and without forks of a child."""
        found: list[psutil.Process] = []
        with suppress(psutil.Error):
            for process in psutil.Process(self.process.pid).children(recursive=True):
                with suppress(psutil.Error):
                    line, parent = process.cmdline(), process.parent()
                    if words in " ".join(line) and not line[0].endswith("bwrap"):
                        found += [process] if parent is not None and parent.cmdline() != line else []
        return found

    def strike(self, words: str, number: signal.Signals) -> None:
        """Send a signal to all of them, because one of several that take turns may never be used again."""
        self.wait_for(lambda: self.children(words))
        for process in self.children(words):
            with suppress(psutil.Error):
                process.send_signal(number)

    def end(self) -> int | None:
        """Its exit code, None if it hung."""
        try:
            return self.process.wait(LONGEST_S)
        except subprocess.TimeoutExpired:
            for process in [*psutil.Process(self.process.pid).children(recursive=True), self.process]:
                with suppress(psutil.Error):
                    process.kill()
            return None

    def last(self) -> str:
        return last_line(self.screen.read_text(errors="replace"))


def candidates(folder: Path) -> int:
    """How many candidates are committed, without the seed program."""
    try:
        with sqlite3.connect(f"file:{folder / 'population.db'}?mode=ro", uri=True) as database:
            return database.execute("select count(*) - 1 from candidates").fetchone()[0]
    except sqlite3.Error:
        return 0


def last_line(text: str) -> str:
    """The sentence that ended the run: pace's own, else the final state, else the last line. A traceback is named."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    traceback = "TRACEBACK; " if any(line.startswith("Traceback") for line in lines) else ""
    own = [line for line in lines[-1:] if line.startswith("pace: ")]  # what is said before a run starts so too
    ends = own or [line for line in lines if re.match(r"\d+:\d\d +(done:|interrupted)", line)] or lines
    return traceback + (ends[-1] if ends else "(nothing)")


@contextmanager
def small_disk(folder: Path, mib: int = 16) -> Generator[Callable[[], Path]]:
    """Mount a small disk there. Call the yielded function to fill it, and remove the file that it returns to free
    it."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "pace-trial", str(folder)], check=True)

    def fill() -> Path:
        file = folder / "filler"
        with suppress(OSError), file.open("wb", buffering=0) as stream:
            while True:
                stream.write(bytes(65536))
        with suppress(OSError), file.open("ab", buffering=0) as stream:
            while True:
                stream.write(b"0")
        return file

    try:
        yield fill
    finally:
        kept = folder.with_name(f"{folder.name}.kept")
        shutil.copytree(folder, kept, ignore=shutil.ignore_patterns("filler"), dirs_exist_ok=True)
        done = subprocess.run(["umount", "--lazy", str(folder)], check=False)
        sys.stderr.write(f"{'unmounted' if done.returncode == 0 else 'STILL MOUNTED'}: {folder}\n")
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        shutil.rmtree(kept)


def resumed(folder: Path) -> str:
    """The message of a resume, and whether its end is sound."""
    done = subprocess.run(
        [PACE, "resume", str(folder), "--display", "plain"],
        capture_output=True,
        text=True,
        timeout=LONGEST_S * 2,
        check=False,
    )
    check = subprocess.run([PACE, "db", "check", str(folder)], capture_output=True, check=False).returncode
    verify = [sys.executable, VERIFY, str(folder), "--candidates", str(CANDIDATES)]
    whole = subprocess.run(verify, capture_output=True, text=True, check=False)
    wrong = [line for line in whole.stdout.splitlines() if line.startswith("BAD")]
    sound = "sound" if check == 0 and not wrong else f"NOT SOUND ({check}, {wrong})"
    return f"exit {done.returncode}, {candidates(folder)} candidates, {sound}"


Played = tuple[Run, int | None, str]


def killed(words: str) -> Callable[[Path], Played]:
    """A killed child. With `words` empty the run itself is killed, in its search."""

    def play(folder: Path) -> Played:
        run = Run(folder)
        run.wait_candidates(4)
        run.strike(words, signal.SIGKILL) if words else run.process.kill()
        return run, run.end(), resumed(folder)

    return play


def killed_at(words: str, *again: str) -> Callable[[Path], Played]:
    def play(folder: Path) -> Played:
        run = Run(folder)
        run.wait_words(words)
        run.process.kill()
        code = run.end()
        if again:
            code = Run(folder).end()
        return run, code, resumed(folder)

    return play


def stopped(words: str) -> Callable[[Path], Played]:
    def play(folder: Path) -> Played:
        run = Run(folder)
        run.wait_candidates(4)
        run.strike(words, signal.SIGSTOP)
        return run, run.end(), resumed(folder)

    return play


def full(below: str, *, room_after_s: float | None, mib: int = 16) -> Callable[[Path], Played]:
    """No room in a folder of the run (or in the run's own), for a while or permanently."""

    def play(folder: Path) -> Played:
        with small_disk(folder / below, mib) as fill:
            run = Run(folder)
            run.wait_candidates(3)
            filler = fill()
            if room_after_s is not None:
                run.wait_for(lambda: "the disk is full" in run.screen.read_text(errors="replace"))
                time.sleep(room_after_s)
                filler.unlink()
            code = run.end()
            filler.unlink(missing_ok=True)
            return run, code, resumed(folder)

    return play


def memo_locked(folder: Path) -> Played:
    memo = folder.with_suffix(".memo")
    run = Run(folder, "--set", f"evaluation.memo={memo}")
    run.wait_candidates(2)
    holder = sqlite3.connect(memo, isolation_level=None)
    holder.execute("begin exclusive")
    code = run.end()
    holder.close()
    return run, code, resumed(folder)


def report_full(folder: Path) -> Played:
    run = Run(folder)
    run.end()
    with small_disk(folder.with_suffix(".disk"), 1) as fill:
        fill()
        target = str(folder.with_suffix(".disk") / "report.html")
        with run.screen.open("wb") as screen:
            code = subprocess.run([PACE, "report", str(folder), "-o", target], stderr=screen, check=False).returncode
    return run, code, resumed(folder)


def deleted(folder: Path) -> Played:
    run = Run(folder)
    run.wait_candidates(4)
    shutil.rmtree(folder, ignore_errors=True)
    return run, run.end(), "nothing is left to resume" if not folder.exists() else "SOMETHING IS LEFT"


def two_resumes(folder: Path) -> Played:
    first = Run(folder)
    first.wait_candidates(4)
    first.process.send_signal(signal.SIGINT)
    first.end()
    driver = subprocess.Popen([PACE, "resume", str(folder), "--display", "none"])
    first.wait_for(lambda: psutil.Process(driver.pid).num_threads() > 1)
    while subprocess.run(["flock", "-n", str(folder / "lock"), "true"], check=False).returncode == 0:
        time.sleep(0.05)
    with first.screen.open("wb") as screen:
        second = subprocess.run([PACE, "resume", str(folder)], stderr=screen, check=False).returncode
    driver.wait(LONGEST_S)
    return first, second, resumed(folder)


def process_one(folder: Path) -> Played:
    run = Run(folder, first=FIRST)
    return run, run.end(), resumed(folder)


def hung_up(folder: Path) -> Played:
    run = Run(folder, terminal=True)
    run.wait_candidates(4)
    assert run.terminal is not None
    os.close(run.terminal)
    return run, run.end(), resumed(folder)


def signalled(times: int) -> Callable[[Path], Played]:
    def play(folder: Path) -> Played:
        run = Run(folder)
        run.wait_candidates(4)
        for _ in range(times):
            run.process.send_signal(signal.SIGTERM)
            run.wait_words("draining")
        return run, run.end(), resumed(folder)

    return play


TRIALS: tuple[tuple[str, Callable[[Path], Played]], ...] = (
    ("kill -9 before the first row, then the same command", killed_at("proving the sandbox", "again")),
    ("kill -9 while the stages start", killed_at("starting the engine")),
    ("kill -9 in the search", killed("")),
    ("kill -9 of the learner", killed(LEARNER)),
    ("kill -9 of the engine", killed(ENGINE)),
    ("kill -9 of the scorers", killed(SCORER)),
    ("kill -9 of the warm parents", killed(WARM)),
    ("SIGSTOP of the learner", stopped(LEARNER)),
    ("SIGSTOP of the engine", stopped(ENGINE)),
    ("SIGSTOP of the scorers", stopped(SCORER)),
    ("SIGSTOP of the warm parents", stopped(WARM)),
    ("group files: no room for 5 s", full("groups", room_after_s=5)),
    ("group files: no room", full("groups", room_after_s=None)),
    ("checkpoints: no room for 5 s", full("learner", room_after_s=5, mib=256)),
    ("checkpoints: no room", full("learner", room_after_s=None, mib=256)),
    ("logs: no room", full("logs", room_after_s=None)),
    ("the whole folder (database, events, best.py): no room for 5 s", full("", room_after_s=5, mib=256)),
    ("the whole folder: no room", full("", room_after_s=None, mib=256)),
    ("score memo locked for good", memo_locked),
    ("report: no room", report_full),
    ("the run's folder deleted", deleted),
    ("two resumes at once (the second)", two_resumes),
    ("process 1 of a namespace (unshare -pf --mount-proc)", process_one),
    ("the terminal closed (SIGHUP)", hung_up),
    ("SIGTERM", signalled(1)),
    ("SIGTERM twice", signalled(2)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("/tmp/fault-trials"))
    parser.add_argument("--only", type=int, nargs="*", help="numbers of trials, done again")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    record = options.work / "trials.json"
    done: dict[str, dict[str, object]] = json.loads(record.read_text()) if record.exists() else {}
    for number, (fault, play) in enumerate(TRIALS, start=1):
        if str(number) in done if options.only is None else number not in options.only:
            continue
        folder = options.work / f"trial-{number:02d}"
        shutil.rmtree(folder, ignore_errors=True)
        try:
            run, code, resume = play(folder)
        except Exception as error:
            sys.stderr.write(f"trial {number} itself failed: {type(error).__name__}: {error}\n")
            continue
        command = "pace " + " ".join(run.arguments[:3])
        trial = Trial(number, fault, command, time.strftime("%Y-%m-%d %H:%M"), run.last(), code, resume)
        done[str(number)] = asdict(trial)
        record.write_text(json.dumps(done, indent=1))
        sys.stderr.write(f"{trial}\n")
    sys.stdout.write("| | fault | date | what the screen said last | exit | resume |\n|---|---|---|---|---|---|\n")
    for trial in (Trial(**done[key]) for key in sorted(done, key=int)):  # type: ignore[arg-type]
        said = trial.said.replace("|", "\\|").replace(str(options.work), "…")
        code = "hung" if trial.code is None else trial.code
        sys.stdout.write(f"| {trial.number} | {trial.fault} | {trial.date} | {said} | {code} | {trial.resume} |\n")


if __name__ == "__main__":
    main()
