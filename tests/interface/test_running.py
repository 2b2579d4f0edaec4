"""Runs from Python: real ones, of a few candidates, without a learner."""

import io
import signal
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

import pace_async as pace
from pace_async.errors import GaveUp, Interrupted, PaceError, RunLocked, UsageError
from pace_async.interface.beginning import Asked, AskedOn, read
from pace_async.interface.processes import RunProcess, resumed, start_process
from pace_async.population.lock import RunLock
from tests.support.finished_runs import copy_run, make_run

ROOT = Path(__file__).parents[2]
WITH_MODEL = {"stop.candidates": 3, "search.threads": 2, "learner.objective": "none"}
FEW = {**WITH_MODEL, "advisor.model": "bandit"}
"""Starts no engine."""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs are made in the test's folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long
@pytest.mark.nightly
def test_a_run_is_searched_to_its_end_even_from_a_thread_beside_a_loop(place: Path) -> None:
    """As a notebook does, where an event loop runs already."""
    found: list[pace.Run] = []

    async def notebook() -> None:
        thread = threading.Thread(target=lambda: found.append(pace.run("circle_packing", WITH_MODEL)))
        thread.start()
        await anyio.to_thread.run_sync(thread.join)

    anyio.run(notebook)
    (run,) = found
    assert run.name == str(place / "runs" / "circle_packing-1")
    assert run.status()["state"] == "done"
    assert len(run.rows()) == 1 + 3
    assert run.sql("select objective, threads from runs") == [{"objective": "none", "threads": 2}]


@pytest.mark.long
@pytest.mark.nightly
def test_a_run_is_resumed_to_a_higher_limit() -> None:
    run = pace.run("circle_packing", FEW, run_dir="mine")
    assert pace.resume(run.name, {"stop.candidates": 5}) == run
    assert len(run.rows()) == 1 + 5


@pytest.mark.long
def test_a_run_beside_the_loop_is_drained_when_its_block_is_cancelled() -> None:
    async def cancelled() -> pace.Run:
        with anyio.CancelScope() as scope:
            async with pace.start("circle_packing", {**FEW, "stop.candidates": 500}) as going:
                async for event in going.events():
                    if event["event"] == "Evaluated":
                        scope.cancel()
        return pace.open("circle_packing")

    status = anyio.run(cancelled).status()
    assert (status["state"], status["driven"]) == ("interrupted", False)
    assert 1 <= status["candidates"] < 500


@pytest.mark.long
def test_a_stopped_run_says_how_it_goes_on() -> None:
    async def stopped() -> None:
        async with pace.start("circle_packing", {**FEW, "stop.candidates": 500}) as going:
            async for event in going.events():
                if event["event"] == "Evaluated":
                    going.stop()
                    break

    with pytest.raises(Interrupted, match="goes on"):
        anyio.run(stopped)


def test_what_the_command_refuses_is_refused_before_anything_is_written(place: Path) -> None:
    for wrong in (
        lambda: pace.run("nosuch"),
        lambda: pace.run("circle_packing", {"learner.kk": 2}),
        lambda: pace.resume("nosuch"),
    ):
        with pytest.raises(UsageError):
            wrong()
    assert list(place.iterdir()) == []


@pytest.mark.long
def test_a_run_that_another_process_drives_is_refused_with_the_command_s_words(place: Path) -> None:
    folder = copy_run(make_run(place / "made"), place)
    with RunLock(folder), pytest.raises(RunLocked, match="process"):
        pace.resume(folder, {"stop.candidates": 50})


def test_what_is_asked_reaches_the_process_as_it_is(place: Path) -> None:
    settings = {"stop.minutes": 1e-05, "advisor.api_base": None, "advisor.options": {"a: b": [1, "x=y", "\n"]}}
    process = start_process("circle_packing", settings, (), "here")
    assert process.folder == place / "here"
    assert read(process.document.decode()) == Asked(
        settings={**settings, "task": "circle_packing"}, files=[], logs=[], run_dir=str(place / "here")
    )


def test_a_resume_reaches_the_process_as_it_is(place: Path) -> None:
    folder = copy_run(make_run(place / "made"), place)
    asked = AskedOn(run=str(folder), settings={"stop.candidates": 50}, logs=[])
    assert read(resumed(folder, {"stop.candidates": 50}).document.decode()) == asked
    assert resumed(None, None).folder == folder  # the latest run


def test_runs_that_begin_at_once_have_a_folder_each_and_a_refused_one_leaves_none(place: Path) -> None:
    first, second = (start_process("circle_packing", {}, (), None) for _ in range(2))
    assert [process.folder.name for process in (first, second)] == ["circle_packing-1", "circle_packing-2"]
    with pytest.raises(UsageError, match="no key"):
        first.ended(2, io.BytesIO(b"no key\n"))
    (second.folder / "lock").touch()
    with pytest.raises(GaveUp):
        second.ended(6, io.BytesIO())
    assert [folder.name for folder in (place / "runs").iterdir()] == ["circle_packing-2"]


@pytest.mark.long
@pytest.mark.nightly
def test_a_run_begins_with_the_advisor_of_another_as_the_command_does(place: Path) -> None:
    other = pace.open(copy_run(make_run(place / "made"), place))
    for named in (other, other.name):
        with pytest.raises(UsageError, match=f"no version of run {Path(other.name).name} is in .*versions any more"):
            pace.run("circle_packing", FEW | {"advisor.model": "tiny"}, advisor_from=named)


@pytest.mark.long
@pytest.mark.nightly
def test_two_commands_at_once_search_two_runs(place: Path) -> None:
    line = [sys.executable, "-m", "pace_async", "run", "circle_packing", "--display", "none"]
    line += [word for name, value in FEW.items() for word in ("--set", f"{name}={value}")]
    with subprocess.Popen(line) as first, subprocess.Popen(line) as second:
        assert (first.wait(), second.wait()) == (0, 0)
    runs = [pace.open(f"circle_packing-{number}") for number in (1, 2)]
    assert [len(run.rows()) for run in runs] == [1 + 3, 1 + 3]


@pytest.mark.parametrize(
    ("code", "error", "says"),
    [
        (6, GaveUp, "the disk is full"),
        (2, UsageError, "the disk is full"),
        (-signal.SIGKILL, PaceError, "the disk is full"),
    ],
)
def test_an_exit_code_is_its_error(code: int, error: type[PaceError], says: str, place: Path) -> None:
    with pytest.raises(PaceError, match=f"^{says}") as raised:
        RunProcess(AskedOn(), place).ended(code, io.BytesIO(b"the disk is full.\n"))
    assert type(raised.value) is error


def test_a_silent_end_names_its_exit_code(place: Path) -> None:
    with pytest.raises(PaceError, match="exit code -9"):
        RunProcess(AskedOn(), place).ended(-9, io.BytesIO())


@pytest.mark.long
@pytest.mark.nightly
def test_the_example_runs(place: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "running_a_search.py")],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count(": ") >= 4
    assert str(place / "runs" / "circle_packing-1") in done.stdout
