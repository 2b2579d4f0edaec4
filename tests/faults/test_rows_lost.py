"""Rows that were committed and are gone, because population.db-wal or newer files are: a resume says so and waits."""

import json
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import anyio
import pytest

from pace_async.errors import UsageError
from pace_async.events import Fact
from pace_async.learn.rebuild import StepRecord, checkpoints_of
from pace_async.observe.jsonl import event_line
from pace_async.population.store import Store
from pace_async.runtime.run_paths import RunPaths
from pace_async.runtime.start import launch
from pace_async.runtime.start.launch import header_of
from pace_async.runtime.start.lost_rows import accept_loss, lost_rows, numbers_in_log, refuse_if_lost
from pace_async.task import load_task
from pace_async.weights import COMPLETE
from tests.support.command_line import Shell
from tests.support.population_facts import fresh, opened, rollout, seed_program, shipped, trained
from tests.support.simulated_runs import settings

LOST = pytest.mark.fault("Database", "the newest rows lost, and older ones left")


def log(paths: RunPaths, facts: Iterable[Fact]) -> None:
    """Write the facts down as a run does after their commit."""
    with paths.events.open("a") as stream:
        stream.writelines(event_line(fact, 1.0) + "\n" for fact in facts)


@pytest.fixture
def crashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPaths:
    """A run as after `kill -9` and `rm population.db-wal`: seven candidates, of which a checkpoint had moved three into
    the file. No search begins on it."""
    written, paths = RunPaths(tmp_path / "written"), RunPaths(tmp_path / "demo")
    paths.folder.mkdir()
    config, task = settings(stop__candidates=9, search__threads=2), load_task("circle_packing")

    async def search() -> None:
        async with Store.open(written.file) as store:
            await store.create_run(header_of(config, task, "demo", await launch.pick_tier(False)))
            for facts in ((seed_program(),), *(rollout(lease) for lease in range(1, 8))):
                if facts == rollout(4):
                    with closing(sqlite3.connect(written.file)) as other:
                        assert other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[0] == 0
                await store.commit(*facts)
                log(paths, facts)
            assert written.file.with_name("population.db-wal").stat().st_size
            shutil.copy(written.file, paths.file)

    async def conduct(resources: launch.RunResources, *_: object) -> str:
        (paths.folder / "reached").touch()
        return "done"

    written.folder.mkdir()
    anyio.run(search)
    monkeypatch.setattr(launch, "conduct", conduct)
    return paths


def rows(paths: RunPaths, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(paths.file)) as database:
        return database.execute(sql).fetchall()


@LOST
def test_a_resume_from_older_rows_is_refused_and_changes_nothing(
    crashed: RunPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell, before = Shell(tmp_path, monkeypatch, capsys), crashed.events.read_bytes()
    for command in (["resume", "demo"], ["resume", "demo", "--candidates", "40"], ["rescore", "demo"]):
        said = shell.pace(*command)
        assert said.code == 2, command
        assert "lacks 4 leases and 4 candidates that its run committed" in said.err
        assert "put the newer files back" in said.err
        assert "pace run" not in said.err
        assert len(said.err.strip().splitlines()) == 1
    assert "rows lost" not in shell.pace("status", "demo").out
    assert not (crashed.folder / "reached").exists()
    assert crashed.events.read_bytes() == before
    assert rows(crashed, "select max(candidate), (select count(*) from faults) from candidates") == [(3, 0)]


@LOST
def test_a_loss_that_is_accepted_is_recorded_and_holds_for_every_later_resume(
    crashed: RunPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, monkeypatch, capsys)
    for command in (["resume", "demo", "--despite-loss"], ["resume", "demo"]):
        said = shell.pace(*command)
        assert said.code == 0, said.err
        assert (crashed.folder / "reached").exists()
        (crashed.folder / "reached").unlink()
    [(kind, detail)] = rows(crashed, "select kind, detail from faults")
    assert kind == "rows_lost"
    assert detail == "gone on without 4 leases and 4 candidates that had been committed"
    sentence = f"{detail} ("
    assert sentence in shell.pace("status", "demo").out
    assert json.loads(shell.pace("status", "demo", "--json").out)["rows_lost"].startswith(sentence)
    assert sentence in shell.pace("db", "check", "demo").out
    log(crashed, [*rollout(4), opened(5)])
    assert "lacks 2 leases and 1 candidate that" in shell.pace("resume", "demo").err


@LOST
def test_rows_whose_advisor_cannot_be_rebuilt_are_refused_and_nothing_is_written(
    crashed: RunPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where an older backup is put back whose checkpoint and group the folder has given up since."""
    shell, group = Shell(tmp_path, monkeypatch, capsys), shipped(1, (1, 2))

    async def train() -> None:
        async with Store.open(crashed.file) as store:
            await store.load("demo")
            await store.commit(group, trained(1, (1, 2)))

    anyio.run(train)
    before = crashed.events.read_bytes()
    lacks = "rows end with version 1 of the advisor, and demo cannot rebuild it without the group file groups/000001"
    said = shell.pace("resume", "demo")
    assert said.code == 2
    assert "put the newer files back, because they cannot be given up: the " + lacks in said.err
    assert "--despite-loss" not in said.err
    said = shell.pace("resume", "demo", "--despite-loss")
    assert said.code == 2
    assert f"Nothing was changed, because the {lacks}" in said.err
    assert len(said.err.strip().splitlines()) == 1
    assert not (crashed.folder / "reached").exists()
    assert crashed.events.read_bytes() == before
    assert rows(crashed, "select count(*) from faults") == [(0,)]
    checkpoint = checkpoints_of(crashed.learner) / "000001"
    checkpoint.mkdir(parents=True)
    (checkpoint / COMPLETE).write_text(json.dumps(asdict(StepRecord(1, group.digest, {}, 0.1))))
    assert shell.pace("resume", "demo", "--despite-loss").code == 0
    assert (crashed.folder / "reached").exists()
    assert rows(crashed, "select kind from faults") == [("rows_lost",)]


@pytest.mark.long
@LOST
@pytest.mark.usefixtures("both")
async def test_a_loss_is_found_in_every_table_and_on_every_database(tmp_path: Path) -> None:
    """As where an older backup is put back, also on a server."""
    paths = RunPaths(tmp_path)
    async with fresh(tmp_path) as store:
        for facts in (rollout(1), rollout(2), (shipped(1, (1, 2)),), (trained(1, (1, 2)),), rollout(3)):
            await store.commit(*facts)
            log(paths, facts)
        assert await lost_rows(store, paths.events) is None
        await refuse_if_lost(store, paths, "none")
        log(paths, [*rollout(4), *rollout(5), shipped(2, (3, 4))])
        lost = await lost_rows(store, paths.events)
        assert str(lost) == "2 leases, 2 candidates and 1 group"
        with pytest.raises(UsageError, match="--despite-loss"):
            await refuse_if_lost(store, paths, "none")
        await accept_loss(store, paths)
        assert await lost_rows(store, paths.events) is None
        await store.commit(*rollout(4))
        log(paths, rollout(4))
        assert await lost_rows(store, paths.events) is None


def test_a_log_that_is_missing_torn_or_of_another_program_tells_of_nothing(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    assert not any(numbers_in_log(paths.events).values())
    lines = ["", "{", '{"event":"Evaluated","at":1.0,"lease":"7"}', '{"event":"Evaluated","at":1.0,"lea', "\0\0"]
    lines += ['{"event":"LeaseOpened","at":1.0}', '{"event":"Other","lease":7}', '{"event":"Evaluated","lease":0}']
    paths.events.write_text("\n".join(lines))
    assert not any(numbers_in_log(paths.events).values())
    log(paths, [opened(3)])
    assert not any(numbers_in_log(paths.events).values())  # on the torn line
    log(paths, [opened(3)])
    assert numbers_in_log(paths.events)["leases"] == {3}
