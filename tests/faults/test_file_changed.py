"""A population's file that is replaced or damaged: said in one sentence, by the run and by its resume."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pace_async.errors import GaveUp, UsageError
from pace_async.population.schema import upgrade
from pace_async.population.store import Store
from tests.support.command_line import Shell
from tests.support.finished_runs import make_run
from tests.support.population_facts import advised, evaluated, fresh, opened, rollout


def flip_pages(file: Path) -> None:
    """Make every page but the first one unreadable. The size and the header stay."""
    size = file.stat().st_size
    with file.open("r+b") as stream:
        stream.seek(4096)
        stream.write(b"\xa5" * (size - 4096))


async def make(folder: Path) -> Path:
    """A closed population with a few rollouts."""
    async with fresh(folder) as store:
        for lease in range(1, 8):
            await store.commit(*rollout(lease))
    return folder / "population.db"


@pytest.mark.fault("Database", "the file replaced under a run")
@pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "removed"])
async def test_a_file_that_is_replaced_while_a_run_writes_it_refuses_the_next_commit(
    tmp_path: Path, replaced: bool
) -> None:
    async with fresh(tmp_path) as store:
        store.guard(lambda: None)
        await store.commit(*rollout(1))
        await store.refuse_if_damaged()
        file = tmp_path / "population.db"
        kept = tmp_path / "kept.db"
        shutil.copy(file, kept)
        if replaced:
            kept.replace(file)
        else:
            file.unlink()
        with pytest.raises(GaveUp, match="was removed or replaced while its run went on"):
            await store.commit(opened(2), advised(2), evaluated(2))
        with pytest.raises(GaveUp, match="was removed or replaced"):
            await store.refuse_if_damaged()


@pytest.mark.fault("Database", "a damaged page, on resume and at a run's end")
async def test_damaged_pages_are_one_sentence_on_resume_and_are_found_at_the_end_of_a_run(tmp_path: Path) -> None:
    file = await make(tmp_path)
    flip_pages(file)
    before = file.read_bytes()
    with pytest.raises(UsageError, match="restore it from a backup"):
        async with Store.open(file, create=False) as store:
            await store.standing()
    with pytest.raises(UsageError, match="restore it from a backup"):
        async with Store.open(file, create=False) as store:
            await store.load()
    assert file.read_bytes() == before


@pytest.mark.fault("Database", "a damaged page, on resume and at a run's end")
async def test_damage_while_a_run_goes_on_is_found_when_it_ends(tmp_path: Path) -> None:
    file = await make(tmp_path)
    async with Store.open(file, create=False) as store:
        store.guard(lambda: None)
        await store.refuse_if_damaged()
        flip_pages(file)
        with pytest.raises(GaveUp, match="was damaged while its run went on"):
            await store.refuse_if_damaged()


@pytest.mark.fault("Database", "the log removed after a crash")
def test_a_population_without_its_rows_is_never_begun_anew_over_what_its_run_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after `kill -9` and `rm population.db-wal`: the file has its tables, or not even these, and no row."""
    run = tmp_path / "demo"
    run.mkdir()
    shell = Shell(tmp_path, monkeypatch, capsys)
    upgrade(run / "population.db")
    said = shell.pace("resume", "demo")
    assert (said.code, "nothing was lost" in said.err) == (2, True)
    (run / "events.jsonl").write_text("{}\n")
    (run / "groups").mkdir()
    for command in (["resume", "demo"], ["run", "circle_packing", "--run-dir", "demo"]):
        said = shell.pace(*command)
        assert said.code == 2
        assert "(events.jsonl, groups)" in said.err
        assert "back from a backup" in said.err
        assert "nothing was lost" not in said.err
        assert len(said.err.strip().splitlines()) == 1


@pytest.mark.fault("Database", "a value of another type in a column of numbers")
@pytest.mark.parametrize("value", ["'abc'", "x'00ff'"], ids=["text", "blob"])
def test_a_value_of_another_type_is_one_sentence_in_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    database = make_run(tmp_path / "run") / "population.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(f"UPDATE candidates SET score = {value}, merit = {value} WHERE candidate > 0")
    shell = Shell(tmp_path, monkeypatch, capsys)
    for command in (["status", "run"], ["report", "run"], ["best", "run"], ["resume", "run", "--candidates", "44"]):
        said = shell.pace(*command)
        assert said.code == 2, command
        assert "candidates.score holds numbers" in said.err, command
        assert len(said.err.strip().splitlines()) == 1, command
