"""A simulation that is told to end leaves nothing in memory."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.command_line import PACE

MEMORY = Path("/dev/shm")


def folders() -> set[Path]:
    return set(MEMORY.glob("pace-simulate-*"))


@pytest.mark.skipif(not MEMORY.is_dir(), reason="needs a file system in memory at /dev/shm")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_simulation_that_is_told_to_end_removes_its_folder(number: signal.Signals) -> None:
    before = folders()
    with subprocess.Popen([PACE, "simulate", "--candidates", "1000000"], stderr=subprocess.PIPE, text=True) as run:
        while not folders() - before and run.poll() is None:
            time.sleep(0.05)
        run.send_signal(number)
        _, said = run.communicate(timeout=60)
    assert run.returncode == 130, said
    assert "Traceback" not in said
    assert folders() <= before
