"""A simulation that is terminated leaves nothing in memory."""

import gc
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pace_async.simulate import predict
from pace_async.simulate.durations import Durations
from pace_async.simulate.virtual import run_virtually
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


def test_an_interrupt_while_the_folder_is_made_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, made = os.mkdir, list[Path]()

    def interrupted(folder: str, *given: Any, **settings: Any) -> None:
        make(folder, *given, **settings)
        made.extend(tmp_path.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(predict, "_draft_folder", lambda: tmp_path)
    monkeypatch.setattr(os, "mkdir", interrupted)
    durations = Durations(
        0, evaluation_mean=60, evaluation_cv=0, evaluation_cap=None, generation=3, learning=2, pause=1
    )
    with pytest.raises(KeyboardInterrupt):
        predict.measure(predict.Scenario(threads=2, group_size=2, bound=1, durations=durations, candidates=4))
    assert len(made) == 1 and list(tmp_path.iterdir()) == []


def test_an_interrupt_while_the_loop_is_made_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    said = list[str]()

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    def heard(raised: Any) -> None:
        said.append(repr(raised.exc_value))

    async def never() -> None:
        raise AssertionError

    monkeypatch.setattr(sys, "unraisablehook", heard)
    monkeypatch.setattr(socket, "socketpair", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_virtually(never)
    gc.collect()
    assert said == []
