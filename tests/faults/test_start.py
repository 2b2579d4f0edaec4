"""Killed in the start-up, before its first row too: a message says what exists, and a resume or a new run goes on."""

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from pace_async.evaluate.sandbox.selfcheck import pick_tier
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


@pytest.mark.fault("Being started and stopped", "cut off before the seed program's row: a resume works")
def test_a_run_cut_off_before_its_seed_programs_row_scores_it_when_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, task, folder = settings(**SMALL), load_task("circle_packing"), tmp_path / "demo"
    best = list[float]()

    async def begin() -> None:
        async with Store.open(folder / "population.db") as store:
            await store.create_run(header_of(config, task, "demo", await pick_tier(False)))

    async def conduct(resources: launch.RunResources, _display: str, _logs: object) -> str:
        assert resources.record.seed_program is not None
        best.append(resources.record.seed_program.score)
        return "done"

    anyio.run(begin)
    monkeypatch.setattr(launch, "conduct", conduct)
    assert launch.go_on(str(folder), {}, "none") == 0
    assert best and best[0] > 0
    assert_sound(folder / "population.db")
