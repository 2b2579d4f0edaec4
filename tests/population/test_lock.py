"""One live process to a run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pace_async.children import clean_environment
from pace_async.errors import RunLocked, UsageError
from pace_async.population.lock import RunLock, is_driven

HOLDER = """
import sys
from pathlib import Path
from pace_async.population.lock import RunLock, is_driven
with RunLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def _holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)],
        cwd=Path(__file__).parents[2],
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()
    process.wait()


@pytest.mark.fault("Crash and resume", "a second resume is refused and names the holder")
def test_a_second_process_is_refused_by_the_name_of_the_first(tmp_path: Path) -> None:
    process = _holder(tmp_path / "demo")
    with (
        pytest.raises(RunLocked, match=f"Run demo is driven by process {process.pid} \\(since "),
        RunLock(tmp_path / "demo"),
    ):
        pass
    _end(process)
    with RunLock(tmp_path / "demo"):
        pass


@pytest.mark.fault("Crash and resume", "the lock of a dead holder is free")
def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    process = _holder(tmp_path)
    assert is_driven(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    _end(process)
    assert not is_driven(tmp_path)
    with RunLock(tmp_path) as lock:
        assert f'"pid": {os.getpid()}' in lock.path.read_text()


def test_one_process_cannot_drive_a_run_twice(tmp_path: Path) -> None:
    with RunLock(tmp_path), pytest.raises(RunLocked, match=str(os.getpid())), RunLock(tmp_path):
        pass


def test_a_lock_can_be_taken_again_after_an_error_inside(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    with pytest.raises(ZeroDivisionError), lock:
        _ = 1 / 0
    with lock:
        pass


def test_a_torn_note_of_the_holder_still_locks(tmp_path: Path) -> None:
    with RunLock(tmp_path) as lock:
        lock.path.write_text('{"pid"')
        with pytest.raises(RunLocked, match="another process"), RunLock(tmp_path):
            pass


def test_a_place_that_cannot_be_locked_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="Cannot lock the run"), RunLock(tmp_path / "file"):
        pass
