"""The tests of `gc_freeze_alone`, in a process that has not loaded what this session has."""

import subprocess
import sys
from pathlib import Path

import pytest

ALONE = Path(__file__).with_name("gc_freeze_alone.py")


@pytest.mark.long
def test_objects_of_the_start_up_are_not_collected_while_a_run_lasts() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--noconftest", "-p", "no:cacheprovider", str(ALONE)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0 and "6 passed" in ended.stdout, ended.stdout + ended.stderr
