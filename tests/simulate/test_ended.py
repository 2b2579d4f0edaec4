"""A simulation that is terminated leaves nothing in memory."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.command_line import PACE

MEMORY = Path("/dev/shm")


def folders(pid: int) -> list[Path]:
    """Those of one process. Other tests may simulate at the same time."""
    return list(MEMORY.glob(f"pace-simulate-{pid}-*"))


@pytest.mark.long
@pytest.mark.skipif(not MEMORY.is_dir(), reason="needs a file system in memory at /dev/shm")
def test_a_simulation_that_is_terminated_removes_its_folder() -> None:
    with subprocess.Popen([PACE, "simulate", "--candidates", "1000000"], stderr=subprocess.PIPE, text=True) as run:
        while not (made := folders(run.pid)) and run.poll() is None:
            time.sleep(0.05)
        run.send_signal(signal.SIGTERM)
        _, said = run.communicate(timeout=60)
    assert run.returncode == 130, said
    assert "Traceback" not in said
    assert len(made) == 1 and folders(run.pid) == []
