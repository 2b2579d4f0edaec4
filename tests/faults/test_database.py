"""A database that is cut short, may not be written, or is very long."""

import multiprocessing
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest

from pace_async.errors import GaveUp, UsageError
from pace_async.population.lock import RunLock
from pace_async.population.reading.reader import open_readonly
from pace_async.population.store import Store
from tests.support.command_line import Shell
from tests.support.finished_runs import make_run
from tests.support.population_facts import HEADER, empty_population, fresh, opened, rollout, seed_program
from tests.support.populations import damage_of


@pytest.mark.long
@pytest.mark.fault("Database", "cut short")
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_database_that_was_cut_short_is_refused_by_every_command_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], share: float
) -> None:
    database = make_run(tmp_path / "run") / "population.db"
    shell = Shell(tmp_path, monkeypatch, capsys)
    os.truncate(database, int(database.stat().st_size * share))
    before = database.read_bytes()
    for command in (["resume"], ["status"], ["best"], ["db", "check"], ["db", "upgrade"]):
        said = shell.pace(*command, "run")
        assert (said.code, said.out) == (2, ""), command
        assert "restore it from a backup" in said.err
        assert len(said.err.strip().splitlines()) == 1
    said = shell.pace("run", "--run-dir", "run")
    assert said.code == 2
    assert database.read_bytes() == before


@pytest.fixture
def read_only(tmp_path: Path) -> Generator[Path]:
    """A run in a folder that only its owner may write to, where everybody can come to it."""
    folder = Path(tempfile.mkdtemp(prefix="pace-tests-"))

    async def make() -> None:
        async with fresh(tmp_path) as store:
            await store.commit(*rollout(1))

    anyio.run(make)
    shutil.copy(tmp_path / "population.db", folder)
    (folder / "population.db").chmod(0o444)
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def _as_nobody(folder: Path, said: "multiprocessing.SimpleQueue[str]") -> None:
    async def commit() -> None:
        async with Store.open(folder / "population.db", create=False) as store:
            await store.load()
            await store.commit(opened(2))

    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    for attempt in (lambda: anyio.run(commit), lambda: RunLock(folder).__enter__()):
        try:
            attempt()
            said.put("went through")
        except (GaveUp, UsageError) as error:
            said.put(f"{type(error).__name__}: {error}")


@pytest.mark.fault("Database", "nothing may be written")
def test_on_a_read_only_disk_a_commit_fails_with_a_sentence_and_reading_works(read_only: Path) -> None:
    database = read_only / "population.db"
    before = database.read_bytes()
    fork = multiprocessing.get_context("fork")
    said = fork.SimpleQueue()
    process = fork.Process(target=_as_nobody, args=(read_only, said))
    process.start()
    process.join()
    assert process.exitcode == 0
    commit, lock = said.get(), said.get()
    assert commit.startswith("GaveUp: "), commit
    assert "cannot be written" in commit or "readonly" in commit
    assert lock.startswith("UsageError: Cannot lock the run"), lock
    assert database.read_bytes() == before
    with open_readonly(database) as reader:
        assert reader.status()["candidates"] == 1
        assert damage_of(reader) == ()


STEPS = 1000
MILLION = """
WITH RECURSIVE numbers(n) AS (SELECT 10 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000009)
INSERT INTO {table} SELECT {columns} FROM numbers JOIN {table} t ON t.lease = 1
"""


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.fault("Database", "a leaderboard of a million rows")
@pytest.mark.nightly
def test_the_head_of_a_leaderboard_costs_as_little_over_a_million_candidates_as_over_ten(tmp_path: Path) -> None:
    """In steps of the database's machine, of which it makes tens of millions in a second: that of ten thousand is far
    below 50 ms on any machine that there is."""

    async def begin() -> None:
        async with Store.open(empty_population(tmp_path)) as store:
            await store.create_run(HEADER)
            await store.commit(seed_program(), *rollout(1))

    anyio.run(begin)
    database = sqlite3.connect(tmp_path / "population.db")
    database.execute("PRAGMA synchronous=OFF")
    database.execute("PRAGMA journal_mode=OFF")  # a log of these rows would need as much room again
    head = "select candidate, score, rank from leaderboard where run = 'demo' limit 10"
    few, _ = _steps(database, head)
    with database:
        for table in ("leases", "candidates"):
            names = [row[1] for row in database.execute(f"pragma table_info({table})")]
            odd = {"lease": "n", "candidate": "n", "score": "n / 1e6", "merit": "n / 1e6"}
            columns = ", ".join(odd.get(name, f"t.{name}") for name in names)
            database.execute(MILLION.format(table=table, columns=columns))
    assert database.execute("select count(*) from candidates").fetchone() == (1_000_002,)
    many, rows = _steps(database, head)
    database.close()
    assert [row[2] for row in rows] == list(range(1, 11))
    assert [row[1] for row in rows][:2] == [2.5, 1_000_009 / 1e6]
    assert many <= few + 10 * STEPS
    with open_readonly(tmp_path / "population.db") as reader:
        assert reader.status()["candidates"] == 1_000_001
        assert reader.best()["score"] == 2.5


def _steps(database: sqlite3.Connection, sql: str) -> tuple[int, list[tuple[int, float, int]]]:
    """The number of the database machine's steps for the answer, to the next thousand, and the answer."""
    made = 0

    def count() -> int:
        nonlocal made
        made += STEPS
        return 0

    database.set_progress_handler(count, STEPS)
    rows = database.execute(sql).fetchall()
    database.set_progress_handler(None, 0)
    return made, rows
