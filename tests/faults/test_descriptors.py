"""A run and the files that its process may have open."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.runtime.start.descriptors import descriptors_needed
from tests.support.command_line import PACE


@given(st.integers(1, 5000), st.integers(1, 500))
def test_more_threads_and_more_slots_need_more_files(threads: int, slots: int) -> None:
    needed = descriptors_needed(threads, slots)
    assert descriptors_needed(threads + 1, slots) > needed
    assert descriptors_needed(threads, slots + 1) > needed
    assert needed > 71, "what a default run was seen to have open"


@pytest.mark.long
@pytest.mark.fault("Sick, not dead", "32 descriptors: one sentence before anything is written")
def test_a_run_with_32_descriptors_is_refused_in_one_sentence_and_writes_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"ulimit -n 32 && exec {PACE} run --candidates 8 --display plain"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("pace: This process may have 32 files open (`ulimit -n`), and a run")
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_limit_that_may_be_raised_is_raised(tmp_path: Path) -> None:
    """In a process of its own, because a limit is one of the whole process."""
    script = (
        "import resource\n"
        "from pace_async.configure import resolve\n"
        "from pace_async.runtime.start.descriptors import ensure_descriptors\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 1000))\n"
        "ensure_descriptors(resolve(None, {'search.threads': 8, 'evaluation.slots': 2}, environment={}))\n"
        "print(*resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    soft, hard = map(int, done.stdout.split())
    assert (soft, hard) == (descriptors_needed(8, 2), 1000)
    assert resource.RLIM_INFINITY not in (soft, hard)
