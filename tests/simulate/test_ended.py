"""A simulation that is terminated leaves nothing in memory."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.command_line import PACE

MEMORY = Path("/dev/shm")


def folders() -> set[Path]:
    return set(MEMORY.glob("pace-simulate-*"))


@pytest.mark.skipif(not MEMORY.is_dir(), reason="needs a file system in memory at /dev/shm")
def test_a_simulation_that_is_terminated_removes_its_folder() -> None:
    before = folders()
    with subprocess.Popen([PACE, "simulate", "--candidates", "1000000"], stderr=subprocess.PIPE, text=True) as run:
        while not folders() - before and run.poll() is None:
            time.sleep(0.05)
        run.send_signal(signal.SIGTERM)
        _, said = run.communicate(timeout=60)
    assert run.returncode == 130, said
    assert "Traceback" not in said
    assert folders() <= before
