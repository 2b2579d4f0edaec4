"""Ctrl-C before the search has begun: one sentence that says what exists, and nothing left behind."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

PACE = str(Path(sys.executable).with_name("pace"))
HEARING = ("env", "--default-signal=INT")
"""Tests that a shell put into the background ignore Ctrl-C, and so would their children."""

pytestmark = pytest.mark.timeout(120)


def interrupt_at(words: str, run: Path) -> tuple[int, str]:
    """Exit code and last line of a run that gets Ctrl-C as soon as it prints `words`. No child survives it."""
    command = [*HEARING, PACE, "run", "--candidates", "8", "--run-dir", str(run), "--display", "plain"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if words in line:
                break
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        lines += process.stdout.readlines()
        code = process.wait(60)
    assert psutil.wait_procs(family, timeout=10)[1] == []
    return code, lines[-1]


@pytest.mark.long
def test_before_anything_was_written_nothing_is(tmp_path: Path) -> None:
    code, said = interrupt_at("proving the sandbox", tmp_path / "run")
    assert (code, said) == (130, "pace: interrupted before the run began; nothing was written.\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.long
@pytest.mark.nightly
def test_while_the_stages_start_a_resume_begins_the_search(tmp_path: Path) -> None:
    run = tmp_path / "run"
    code, said = interrupt_at("starting the engine", run)
    assert (code, said) == (130, f"pace: interrupted while it started or ended: `pace resume {run}` goes on.\n")
    resumed = subprocess.run(
        [PACE, "resume", str(run), "--display", "plain"], capture_output=True, text=True, check=False
    )
    assert resumed.returncode == 0
    assert "done: stop rule candidates met" in resumed.stdout
