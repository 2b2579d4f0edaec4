"""`pace db copy`: a run from a file to a server and back, all of it or nothing."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from sqlalchemy import text

from pace_async.config import Config
from pace_async.errors import GaveUp, RunLocked, UsageError
from pace_async.population.checking import check_population
from pace_async.population.connect import engine, locate
from pace_async.population.copying import run_copied
from pace_async.population.lock import RunLock
from pace_async.population.models import Base
from pace_async.population.reading.reader import open_readonly
from pace_async.population.store import Store
from pace_async.runtime.copy_run import copy_run
from pace_async.runtime.run_paths import RunPaths
from pace_async.runtime.start.supervisor import drive
from tests.support.command_line import Shell
from tests.support.finished_runs import make_run
from tests.support.population_facts import HEADER
from tests.support.postgres import PostgresServer
from tests.support.postgres_runs import run_of
from tests.support.simulated_runs import settings


def files_of(folder: Path) -> dict[str, bytes]:
    """What is in a run's folder besides its population."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith("population.") and path.name != "lock"
    }


def counts(tables: Sequence[dict[str, Any]]) -> dict[str, int]:
    return {one["table"]: one["rows"] for one in tables}


@pytest.mark.long
def test_a_run_goes_to_a_server_and_back_with_all_rows_and_files(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, shell, url = make_run(tmp_path / "runs" / "here"), Shell(tmp_path, monkeypatch, capsys), postgres.new()

    def ask(*words: str) -> Any:
        said = shell.pace(*words, "--json")
        assert said.code == 0, said.err
        return json.loads(said.out)

    there = ask("db", "copy", "here", url)
    back = ask("db", "copy", "here-copy", "runs/back")
    assert there["tables"] == back["tables"]
    assert set(counts(there["tables"])) == set(Base.metadata.tables)
    with open_readonly(run / "population.db") as reader:
        for table, rows in counts(there["tables"]).items():
            assert reader.query(f"select count(*) as n from {table}") == [{"n": rows}]
    assert min(counts(there["tables"])[name] for name in ("candidates", "leases", "groups", "advisor_calls")) > 5
    files = files_of(run)
    assert len(files) == there["files"] > 5
    assert files == files_of(tmp_path / "runs" / "here-copy") == files_of(tmp_path / "runs" / "back")
    asked: list[tuple[str, ...]] = [("status",), ("best",), ("show", "3")]
    for command, *rest in asked:
        first, second, third = (ask(command, name, *rest) for name in ("here", "here-copy", "back"))
        for other in (second, third):
            assert {**other, "path": first.get("path")} == {**first, "path": first.get("path")}
    assert ask("db", "check", "here-copy")["sound"] and ask("db", "check", "back")["sound"]
    assert not list((tmp_path / "runs").glob(".*"))


def searched(candidates: int) -> Config:
    return settings(seed=5, search__threads=4, stop__candidates=candidates)


@pytest.mark.long
async def test_a_copy_is_resumed_wherever_it_is(tmp_path: Path, postgres: PostgresServer) -> None:
    """From a file to a server on which another run stands, and back, with more candidates at each place."""
    here, url = RunPaths(tmp_path / "here"), postgres.new()
    async with Store.open(url) as store:
        await store.create_run(HEADER)
    here.folder.mkdir()
    async with run_of(str(here.file), here.folder, searched(8)) as (
        core,
        _,
    ):
        assert await drive(core) == "done"
    there = (await anyio.to_thread.run_sync(copy_run, here, url)).folder
    name = RunPaths(there).population[1]
    async with run_of(url, there, searched(12), name) as (core, _):
        assert await drive(core) == "done"
    back = RunPaths((await anyio.to_thread.run_sync(copy_run, RunPaths(there), str(tmp_path / "back"))).folder)
    async with run_of(str(back.file), back.folder, searched(16)) as (
        core,
        _,
    ):
        assert await drive(core) == "done"
    with open_readonly(back.file) as reader:
        assert reader.status()["candidates"] == 16
        assert [check for check in check_population(reader) if not check.ok] == []
    with open_readonly(url) as reader:
        assert len(reader.runs()) == 2
        assert [check for check in check_population(reader) if not check.ok] == []


def test_a_run_that_is_there_already_and_a_folder_that_is_there_are_refused(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    run, url = RunPaths(make_run(tmp_path / "run")), postgres.new()
    copy_run(run, url)
    with pytest.raises(UsageError, match=r"run-copy is there already: name another folder\."):
        copy_run(run, url)
    with pytest.raises(UsageError, match=r"already holds a run '.*': nothing was copied\."):
        copy_run(run, url, tmp_path / "second")
    with pytest.raises(UsageError, match="is there already"):
        copy_run(run, str(tmp_path / "run"))
    with pytest.raises(UsageError, match="name the new run's folder instead"):
        copy_run(run, f"sqlite:///{tmp_path}/other.db")
    with RunLock(run.folder), pytest.raises(RunLocked):
        copy_run(run, str(tmp_path / "third"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run-copy"]


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path, postgres: PostgresServer) -> None:
    run, url = RunPaths(make_run(tmp_path / "run")), postgres.new()
    with pytest.raises(ZeroDivisionError), run_copied(run.file, None, url) as copied:
        assert sum(one.rows for one in copied.tables) > 100
        raise ZeroDivisionError
    postgres.sql("alter table faults drop column detail", database_of(url))
    with pytest.raises(GaveUp, match="nothing was copied"):
        copy_run(run, url)
    postgres.sql("alter table faults add column detail text", database_of(url))
    other = engine(locate(url), "read")
    with other.connect() as connection:
        for table in Base.metadata.tables:
            assert connection.execute(text(f"select count(*) from {table}")).scalar_one() == 0
    other.dispose()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def database_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


@pytest.mark.long
def test_a_candidate_is_copied_after_its_parent_whatever_their_numbers(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    run = RunPaths(make_run(tmp_path / "run"))
    other = engine(locate(run.file), "migrate")
    with other.begin() as connection:
        connection.execute(text("update candidates set parent = 9 where candidate in (3, 7)"))
        connection.execute(text("update candidates set parent = 3 where candidate = 5"))
    other.dispose()
    copied = copy_run(run, postgres.new())
    back = copy_run(RunPaths(copied.folder), str(tmp_path / "back"))
    assert copied.rows == back.rows
    shutil.rmtree(copied.folder)
