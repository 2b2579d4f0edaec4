"""Killed in the start-up, before its first row too: a message says what exists, and a resume or a new run goes on."""

import json
import signal
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from pace_async.errors import GaveUp
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.events import RunStateChanged
from pace_async.population.reading.reader import open_readonly
from pace_async.population.schema import upgrade
from pace_async.population.store import Store
from pace_async.runtime.run_paths import RunPaths
from pace_async.runtime.start import launch
from pace_async.runtime.start.launch import header_of
from pace_async.task import load_task
from tests.faults.invariants import assert_sound
from tests.faults.lives import REACHED, Lives, ProcessLife, lives
from tests.support.command_line import Shell
from tests.support.simulated_runs import settings

SMALL = {"stop__candidates": 4, "search__threads": 2, "learner__group_size": 2, "learner__k": 2}


@pytest.fixture(scope="module")
def process() -> Generator[Lives]:
    with lives() as started:
        yield started


@pytest.mark.long
@pytest.mark.fault("Being started and stopped", "killed between any two commits of the start-up")
@pytest.mark.parametrize("point", ["COMMIT", "BEGIN"], ids=["before a commit", "after a commit"])
def test_a_run_killed_at_any_commit_of_its_start_can_be_begun_or_resumed(
    process: Lives, memory: Path, point: str
) -> None:
    kills, had_run = 0, set[bool]()
    while True:
        folder = memory / f"{point}-{kills + 1}"
        life = ProcessLife(str(folder), SMALL, starts="run", name=point, number=kills + 1)
        if not process.live(life):
            break
        kills += 1
        paths = RunPaths(folder)
        had_run.add(paths.holds_run)
        again = "resume" if paths.holds_run else "run"
        assert not process.live(replace(life, starts=again, name=""))
        assert (folder / REACHED).exists(), f"{again} after a kill at {point} {kills}"
        assert paths.config.is_file()
        assert_sound(paths.file)
        assert not list(folder.glob(".*.tmp*"))
    assert (folder / REACHED).exists()
    assert kills >= 3
    assert had_run == {True, False}


@pytest.mark.fault("Being started and stopped", "cut off before the first row: said, and begun by a new run")
def test_a_folder_in_which_no_run_began_says_which_command_begins_it(
    process: Lives, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    upgrade(tmp_path / "demo" / "population.db")
    shell = Shell(tmp_path, monkeypatch, capsys)
    said = shell.pace("resume", "demo")
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        "pace: The start of demo was cut off before its run was written, and nothing was lost: `pace run TASK "
        "--run-dir demo` begins it.\n"
    )
    assert shell.pace("run", "--run-dir", "demo", "--dry-run").code == 0
    assert not process.live(ProcessLife(str(tmp_path / "demo"), SMALL, starts="run"))
    said = shell.pace("run", "--run-dir", "demo", "--dry-run")
    assert (said.code, "already holds a run: `pace resume demo` goes on with it" in said.err) == (2, True)


async def begin(folder: Path) -> None:
    """Write the first row of a run and no other."""
    async with Store.open(folder / "population.db") as store:
        task = load_task("circle_packing")
        await store.create_run(header_of(settings(**SMALL), task, "demo", await pick_tier(False)))


@pytest.mark.fault("Being started and stopped", "cut off before the seed program's row: a resume works")
def test_a_run_cut_off_before_its_seed_programs_row_scores_it_when_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, best = tmp_path / "demo", list[float]()

    async def conduct(resources: launch.RunResources, _display: str, _logs: object) -> str:
        assert resources.record.run_state.seed_program is not None
        best.append(resources.record.run_state.seed_program.score)
        return "done"

    anyio.run(begin, folder)
    monkeypatch.setattr(launch, "conduct", conduct)
    assert launch.go_on(str(folder), {}, ("none", ())) == 0
    assert best and best[0] > 0
    assert_sound(folder / "population.db")


@pytest.fixture
def hearing(request: pytest.FixtureRequest) -> Generator[None]:
    """Ctrl-C as at a terminal, or as for a process that a shell put into the background."""
    before = signal.signal(signal.SIGINT, request.param)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.long
@pytest.mark.usefixtures("hearing")
@pytest.mark.parametrize(
    "command", [("run", "--run-dir", "demo", "--candidates", "4"), ("resume", "demo")], ids=" ".join
)
@pytest.mark.parametrize(
    "hearing", [signal.default_int_handler, signal.SIG_IGN], indirect=True, ids=["hears", "ignores"]
)
@pytest.mark.fault("Being started and stopped", "stopped while the stages start: listed as interrupted")
def test_a_run_that_the_user_stops_while_it_starts_is_listed_as_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    async def conduct(*_: object) -> str:
        async with anyio.create_task_group() as stages:
            stages.start_soon(anyio.sleep_forever)
            signal.raise_signal(signal.SIGTERM)
            await anyio.sleep_forever()
        raise AssertionError

    if command[0] == "resume":
        anyio.run(begin, tmp_path / "demo")
    monkeypatch.setattr(launch, "conduct", conduct)
    shell = Shell(tmp_path, monkeypatch, capsys)
    said = shell.pace(*command)
    assert said.code == 130
    assert said.err.endswith("pace: interrupted while it started or ended: `pace resume demo` goes on.\n")
    [listed] = json.loads(shell.pace("list", "demo", "--json").out)
    assert (listed["state"], listed["reason"], listed["driven"]) == ("interrupted", "while it started", False)
    assert "interrupted (while it started)" in shell.pace("status", "demo").out
    assert_sound(tmp_path / "demo" / "population.db")


@pytest.mark.usefixtures("hearing")
@pytest.mark.parametrize(
    "hearing", [signal.default_int_handler, signal.SIG_IGN], indirect=True, ids=["hears", "ignores"]
)
def test_a_run_that_is_stopped_before_its_first_row_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def create_run(_store: Store, *_: object, **_programs: object) -> int:
        signal.raise_signal(signal.SIGTERM)
        await anyio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr(Store, "create_run", create_run)
    shell = Shell(tmp_path, monkeypatch, capsys)
    said = shell.pace("run", "--candidates", "4")
    assert said.code == 130
    assert said.err.endswith("pace: interrupted before the run began; nothing was written.\n")
    assert shell.files() == ["runs"]
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("error", "state"),
    [
        (GaveUp("The engine did not start."), ("gave_up", "The engine did not start.")),
        (OSError(), ("crashed", "OSError")),
    ],
)
def test_a_run_whose_stages_do_not_start_is_listed_as_what_ended_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, state: tuple[str, str]
) -> None:
    ended = list[tuple[str, str]]()

    async def conduct(resources: launch.RunResources, *_: object) -> str:
        if ended:
            await resources.store.commit(RunStateChanged(*ended[0], 1.0))
        raise error

    anyio.run(begin, tmp_path)
    monkeypatch.setattr(launch, "conduct", conduct)
    for expected in (state, ("interrupted", "interrupted")):  # an end that is recorded already stays
        with pytest.raises(type(error)):
            launch.go_on(str(tmp_path), {}, ("none", ()))
        with open_readonly(tmp_path / "population.db") as reader:
            found = reader.status()
        assert (found["state"], found["reason"]) == expected
        ended.append(("interrupted", "interrupted"))
