"""One long run in one process: what it holds does not grow with what it has done.

Memory is what the C library's allocator has given to a process of its own (tests/faults/soaked.py), so that neither the
size of the database nor another process counts. Two readings far apart give the growth a candidate.
"""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.soaked import Readings

ROOT = Path(__file__).parents[2]
SHORT, LONG, LONGEST = 3000, 20_000, 100_000
LEAK = 1024
LIMIT = LEAK / 2
"""Bytes a candidate: what is remembered of each group and each lease by simulated stages stays far below."""

pytestmark = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc 2.33 or newer")


def _soaked(folder: Path, candidates: int, leak: int = 0) -> tuple[Readings, float]:
    """The readings of a run, and the growth of memory between them in bytes a candidate."""
    command = [sys.executable, "-m", "tests.faults.soaked", str(folder), str(candidates), str(leak)]
    allocator = {"PYTHONMALLOC": "malloc", "MALLOC_ARENA_MAX": "1"}
    ended = subprocess.run(command, cwd=ROOT, env=os.environ | allocator, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    readings = Readings(**json.loads(ended.stdout))
    first, last = readings.memory
    return readings, (last - first) / (candidates - 100 - candidates // 2)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.fault("Soak", "memory, descriptors and tasks stay flat")
@pytest.mark.nightly
def test_over_thousands_of_candidates_of_one_run_memory_descriptors_and_tasks_stay_flat(tmp_path: Path) -> None:
    readings, growth = _soaked(tmp_path, SHORT)
    assert growth < LIMIT
    assert len(set(readings.descriptors)) == 1
    assert len(set(readings.tasks)) == 1


@pytest.mark.fault("Soak", "a leak of 1 kB a candidate is noticed")
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.nightly
def test_a_leak_of_one_kilobyte_a_candidate_is_far_beyond_what_is_allowed(tmp_path: Path) -> None:
    _, growth = _soaked(tmp_path, SHORT // 3, LEAK)
    assert growth > LIMIT


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.fault("Soak", "memory stays flat over a hundred thousand candidates of one run")
@pytest.mark.nightly
def test_over_tens_of_thousands_of_candidates_of_one_run_memory_stays_flat(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A hundred thousand with `--faults`, which takes ten minutes of a processor."""
    readings, growth = _soaked(tmp_path, LONGEST if request.config.getoption("--faults") else LONG)
    assert growth < LIMIT / 4
    assert len(set(readings.descriptors)) == 1
    assert len(set(readings.tasks)) == 1
