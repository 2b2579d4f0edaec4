"""What was acknowledged is there: after kill -9, cancellation, a full disk, a held lock, and for every reader."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from sqlalchemy import Connection

from pace_async.children import clean_environment
from pace_async.errors import GaveUp
from pace_async.events import RunStateChanged
from pace_async.population import sqlite
from pace_async.population.connect import Place
from pace_async.population.reading.reader import open_readonly
from pace_async.population.store import Store
from pace_async.population.writing import writer
from pace_async.population.writing.outage import ignore_news
from tests.support.population_facts import fresh, opened, rollout
from tests.support.populations import damage_of

CHECKOUT = Path(__file__).parents[2]


def _child(database: Place, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.faults.population_child", str(database), *more]
    return subprocess.Popen(
        command, cwd=CHECKOUT, env=clean_environment(), stdout=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.mark.usefixtures("both")
@pytest.mark.fault("Crash and resume", "killed around a commit")
@pytest.mark.long
async def test_no_acknowledged_row_is_lost_to_kill_9(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        database = store.place
    acknowledged: list[int] = []
    for goal in (1, 25, 4):
        process = await anyio.to_thread.run_sync(_child, database)
        assert process.stdout is not None
        for _ in range(goal):
            acknowledged.append(int(process.stdout.readline()))
        os.killpg(process.pid, signal.SIGKILL)
        acknowledged += [int(line) for line in process.stdout.read().splitlines()]
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
        with open_readonly(database) as reader:
            kept = {row["candidate"] for row in reader.query("SELECT candidate FROM candidates")}
            assert {lease + i for lease in acknowledged for i in (0, 1)} <= kept
            assert kept == set(range(max(kept) + 1)), "a commit of two rollouts was kept by half, or an id was skipped"
            assert max(kept) % 2 == 0
            assert damage_of(reader) == ()
    assert len(acknowledged) >= 30
    async with Store.open(database, create=False) as store:
        record = await store.load()
        assert record.candidates == record.run_state.last_lease >= 2 * len(acknowledged)


@pytest.mark.long
@pytest.mark.fault("Database", "full disk")
async def test_a_full_disk_ends_the_run_with_a_sentence_and_loses_nothing(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        database = store.place
    process = await anyio.to_thread.run_sync(_child, database, "1000000")
    assert process.stdout is not None
    *acknowledged, sentence = process.stdout.read().splitlines()
    process.stdout.close()
    assert process.wait() == 0
    assert "cannot be written" in sentence
    assert "nothing acknowledged is lost" in sentence
    assert len(acknowledged) > 10
    async with Store.open(database, create=False) as store:
        record = await store.load()
        assert record.candidates == 2 * len(acknowledged)
        await store.commit(*rollout(record.run_state.last_lease + 1))


@pytest.mark.usefixtures("both")
async def test_cancelling_the_caller_does_not_cut_a_commit_short(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        for lease in range(1, 20):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await store.commit(*rollout(lease))
                await anyio.lowlevel.checkpoint()
            assert scope.cancelled_caught
        assert (await store.load()).candidates == 19


@pytest.mark.long
@pytest.mark.usefixtures("both")
@pytest.mark.fault("Database", "storm of cancelled tasks")
async def test_a_storm_of_cancelled_tasks_leaves_each_transaction_whole_and_the_store_usable(tmp_path: Path) -> None:
    draw = random.Random(3)
    async with fresh(tmp_path) as store:
        for lease in range(1, 121, 2):
            task = asyncio.ensure_future(store.commit(*rollout(lease), *rollout(lease + 1)))
            question = asyncio.ensure_future(store.load())
            for _ in range(draw.choice([0, 1, 2, 5, draw.randrange(100), draw.randrange(3000)])):
                await asyncio.sleep(0)
            task.cancel()
            question.cancel()
            await asyncio.wait([task, question])
        await store.commit(*rollout(201))
        kept = {row["candidate"] for row in await store.query("SELECT candidate FROM candidates")} - {0}
        assert 201 in kept
        assert all((lease in kept) == (lease + 1 in kept) for lease in range(1, 121, 2))
        assert 1 < len(kept) < 121, "some were cancelled before they began, some while they were written"
    with open_readonly(store.place) as reader:
        assert damage_of(reader) == ()


@pytest.mark.usefixtures("both")
async def test_concurrent_commits_are_made_one_after_the_other(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        async with anyio.create_task_group() as tasks:
            for lease in range(1, 41):
                tasks.start_soon(store.commit, *rollout(lease))
        record = await store.load()
    assert (record.candidates, record.run_state.last_lease) == (40, 40)


@pytest.mark.long
@pytest.mark.usefixtures("both")
async def test_readers_in_other_threads_always_see_a_consistent_snapshot(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        database, watching = store.place, [2]

        def watch() -> None:
            last = 0
            with open_readonly(database) as reader:
                for _ in range(6):
                    status = reader.status()
                    assert status["admitted"] == status["candidates"] + 1 >= last
                    last = status["admitted"]

        async def watch_and_tell() -> None:
            try:
                await anyio.to_thread.run_sync(watch)
            finally:
                watching[0] -= 1

        lease = 1
        await store.commit(opened(lease))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch_and_tell)
            tasks.start_soon(watch_and_tell)
            while watching[0]:
                lease += 1
                await store.commit(*rollout(lease, 2))
        assert (await store.load()).candidates == lease - 1


@pytest.mark.fault("Database", "locked for seconds: waits")
async def test_a_commit_waits_while_another_process_holds_the_database(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        other = sqlite3.connect(str(store.place), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.commit, opened(1))
            assert (await store.load()).admitted == 0
            other.execute("COMMIT")
        other.close()
        assert (await store.load()).admitted == 1


@pytest.mark.fault("Database", "locked for minutes: ends with a sentence and loses nothing")
async def test_a_database_that_stays_locked_ends_the_run_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "WRITER_BUSY_S", 0.05)
    monkeypatch.setattr(writer, "RETRY_S", 0.05)
    async with fresh(tmp_path) as store:
        store.be_patient(0.2, ignore_news)
        other = sqlite3.connect(str(store.place), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(GaveUp, match="cannot be written \\(the database is locked\\)"):
            await store.commit(opened(1))
        other.execute("ROLLBACK")
        other.close()
        await store.commit(opened(1), RunStateChanged("interrupted", "", 1.0))
        assert (await store.load()).admitted == 1


async def test_the_writer_syncs_every_commit_and_enforces_references(tmp_path: Path) -> None:
    names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")

    def ask(connection: Connection) -> list[object]:
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in names]

    async with fresh(tmp_path) as store:
        pragmas = await store._writer.run(ask)  # pyright: ignore[reportPrivateUsage]
    assert pragmas == ["wal", 2, 1, 5_000]


async def test_a_write_holds_the_lock_before_it_has_read_or_written_anything(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:

        def somebody_else_tries(_: Connection) -> str:
            other = sqlite3.connect(str(store.place), isolation_level=None, timeout=0)
            with pytest.raises(sqlite3.OperationalError) as refused:
                other.execute("BEGIN IMMEDIATE")
            other.close()
            return str(refused.value)

        assert await store._write(somebody_else_tries) == "database is locked"  # pyright: ignore[reportPrivateUsage]
