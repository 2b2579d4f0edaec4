"""pace stop and pace rm: a run of another process is ended as by Ctrl-C, and only an idle run is removed."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pace_async.configure import resolve
from pace_async.errors import UsageError
from pace_async.population.lock import RunLock
from pace_async.runtime import ending
from pace_async.runtime.run_index import indexed_runs, remember_run
from pace_async.runtime.series import Series, make_folder
from tests.support.command_line import PACE, Shell

DRIVER = """
import signal, sys
from pathlib import Path
from pace_async.population.lock import RunLock
signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
with RunLock(Path(sys.argv[1])):
    print("driven", flush=True)
    for _ in range(int(sys.argv[2])):
        print(signal.sigwait((signal.SIGTERM, signal.SIGINT)).name, flush=True)
"""
"""Holds the lock of a run until it got so many signals, and names each."""


pytestmark = pytest.mark.usefixtures("finished_run")


@pytest.fixture
def run(shell: Shell) -> Path:
    return shell.folder / "runs" / "circle_packing-1"


@contextmanager
def driven(run: Path, signals: int) -> Generator["subprocess.Popen[str]"]:
    """Another process that drives the run until it got so many signals."""
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(run), str(signals)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "driven\n"
            yield process
        finally:
            process.kill()


def test_a_driven_run_is_asked_to_drain_and_waited_for(shell: Shell, run: Path) -> None:
    with driven(run, 1) as process:
        said = shell.pace("stop", "circle_packing-1")
        assert said.code == 0
        assert f"Process {process.pid} was asked to finish what it runs" in said.out
        assert "`pace resume circle_packing-1` goes on with it" in said.out
        assert process.communicate(timeout=100)[0] == "SIGTERM\n"


def test_now_cancels_with_two_signals_that_cannot_be_taken_for_one(shell: Shell, run: Path) -> None:
    with driven(run, 2) as process:
        assert shell.pace("stop", "circle_packing-1", "--now").code == 0
        assert sorted(process.communicate(timeout=100)[0].split()) == ["SIGINT", "SIGTERM"]


def test_no_wait_returns_while_the_run_drains(shell: Shell, run: Path) -> None:
    with driven(run, 2) as process:
        assert shell.pace("stop", "circle_packing-1", "--no-wait").code == 0
        assert process.poll() is None


def test_an_idle_run_has_nothing_to_stop(shell: Shell) -> None:
    said = shell.pace("stop", "circle_packing-1")
    assert (said.code, said.out) == (0, "No process drives run circle_packing-1: there is nothing to stop.\n")


def test_a_process_that_does_not_hold_the_lock_gets_no_signal(run: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other, RunLock(run):
        written = json.loads((run / "lock").read_text())
        (run / "lock").write_text(json.dumps({**written, "pid": other.pid}))
        with pytest.raises(UsageError, match=f"driven by process {other.pid} of another machine, container or user"):
            ending.ask_to_end(run, now=True)
        assert other.poll() is None
        other.communicate(b"\n", timeout=100)


def test_a_removed_run_is_gone_and_says_how_much_it_held(shell: Shell, run: Path) -> None:
    said = shell.pace("rm", "circle_packing-1", "--yes")
    assert said.code == 0
    assert said.out.startswith("Removed runs/circle_packing-1 (40 candidates, ")
    assert not run.exists()


@pytest.mark.long
def test_nothing_is_removed_without_an_answer(shell: Shell, run: Path) -> None:
    asked = subprocess.run(
        [PACE, "rm", "circle_packing-1"],
        cwd=shell.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert asked.returncode == 2
    assert "`pace rm circle_packing-1 --yes` removes runs/circle_packing-1 (40 candidates" in asked.stderr
    assert (run / "population.db").exists()


def test_a_driven_run_is_not_removed(shell: Shell, run: Path) -> None:
    with RunLock(run):
        said = shell.pace("rm", "circle_packing-1", "--yes")
    assert said.code == 4
    assert f"is driven by process {os.getpid()}" in said.err
    assert (run / "population.db").exists()


def test_a_link_to_a_run_is_not_followed(shell: Shell, run: Path) -> None:
    (shell.folder / "runs" / "link").symlink_to(run)
    said = shell.pace("rm", "link", "--yes")
    assert said.code == 2
    assert "is a link" in said.err
    assert (run / "population.db").exists()


def test_a_run_that_cannot_be_read_can_be_removed(shell: Shell, run: Path) -> None:
    (run / "population.db").write_bytes(b"no database at all" * 100)
    said = shell.pace("rm", "circle_packing-1", "--yes")
    assert "a population that cannot be read" in said.out
    assert not run.exists()


@pytest.fixture
def series(shell: Shell, run: Path) -> Series:
    """Two runs of three."""
    config = resolve(None, {"stop.candidates": 2}, {})
    begun = make_folder(Series(shell.folder / "runs" / "mine", 3, config))
    for seed in (0, 1):
        shutil.copytree(run, begun.paths(seed).folder)
    return begun


def test_the_process_of_a_series_gets_one_signal(shell: Shell, series: Series) -> None:
    with RunLock(series.paths(0).folder), driven(series.folder, 2) as process:
        said = shell.pace("stop", "mine", "--no-wait")
        assert said.out.startswith(f"Process {process.pid} was asked to finish what it runs")
        assert process.stdout is not None
        assert process.stdout.readline() == "SIGTERM\n"
        assert process.poll() is None  # it waits for a second one
    with driven(series.folder, 1):
        said = shell.pace("stop", "runs/mine")
        assert "Series mine has ended: `pace resume runs/mine` goes on with it." in said.out
    assert shell.pace("stop", "mine").out == "No process drives series mine: there is nothing to stop.\n"


def test_a_run_of_a_series_that_a_process_of_its_own_drives_is_stopped_too(shell: Shell, series: Series) -> None:
    with driven(series.paths(1).folder, 1) as process:
        assert shell.pace("stop", "mine").code == 0
        assert process.communicate(timeout=100)[0] == "SIGTERM\n"


def test_a_removed_series_is_gone_with_all_its_runs(shell: Shell, series: Series, run: Path) -> None:
    remember_run(series.paths(0).folder)
    (series.paths(1).file).write_bytes(b"no database at all" * 100)
    said = shell.pace("rm", "mine", "--yes")
    assert said.code == 0
    assert said.out.startswith("Removed runs/mine (2 runs, 40 candidates, a population that cannot be read, ")
    assert not series.folder.exists()
    assert run.exists()
    assert series.paths(0).folder not in [indexed.folder for indexed in indexed_runs()]


def test_a_series_is_not_removed_while_one_of_its_runs_is_driven(shell: Shell, series: Series) -> None:
    for folder in (series.folder, series.paths(1).folder):
        with RunLock(folder):
            said = shell.pace("rm", "mine", "--yes")
        assert (said.code, f"Run {folder.name} is driven by process {os.getpid()}" in said.err) == (4, True)
    (shell.folder / "runs" / "link").symlink_to(series.folder)
    assert "is a link: remove it, or the series that it leads to" in shell.pace("rm", "link", "--yes").err
    assert series.paths(0).file.is_file()


def test_a_series_that_holds_no_run_and_cannot_be_read_can_be_removed(shell: Shell, series: Series) -> None:
    series.file.write_text("{")
    for seed in (0, 1):
        shutil.rmtree(series.paths(seed).folder)
    assert shell.pace("rm", "mine", "--yes").out == "Removed runs/mine (0 runs, 0 candidates, 0.0 MB).\n"
