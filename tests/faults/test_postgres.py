"""A population on PostgreSQL: a whole run, its lock, a server that goes away and comes back, no password anywhere."""

import json
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from pace_async.errors import GaveUp, RunLocked, UsageError
from pace_async.events import FaultSeen
from pace_async.population.checking import check_population
from pace_async.population.connect import engine, locate
from pace_async.population.postgres import number_of, was_made
from pace_async.population.reading.reader import open_readonly
from pace_async.population.store import Store
from pace_async.population.writing import writer
from pace_async.population.writing.outage import Outage
from pace_async.runtime.run_paths import RunPaths
from pace_async.runtime.start.supervisor import drive
from tests.support.command_line import Shell
from tests.support.population_facts import HEADER, fresh, opened, populations_on, rollout
from tests.support.postgres import PostgresServer
from tests.support.postgres_runs import run_of
from tests.support.simulated_runs import settings


@pytest.mark.long
async def test_a_run_on_a_server_is_the_run_in_a_file_and_every_command_reads_it(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url, config = postgres.new(), settings(seed=5, search__threads=4, stop__candidates=24)
    async with run_of(url, tmp_path, config) as (core, _):
        assert await drive(core) == "done"
    async with run_of(url, tmp_path, settings(seed=5, search__threads=4, stop__candidates=32)) as (core, store):
        assert await drive(core) == "done"
        await store.create_run(HEADER)
    (tmp_path / "runs" / "far").mkdir(parents=True)
    (tmp_path / "runs" / "far" / "population.url").write_text(f"{url}\nsimulated\n")
    shell = Shell(tmp_path, monkeypatch, capsys)

    def ask(*words: str) -> str:
        said = shell.pace(*words)
        assert said.code == 0, said.err
        return said.out

    status = json.loads(await anyio.to_thread.run_sync(ask, "status", "--json"))
    assert (status["candidates"], status["state"], status["max_trained_staleness"] <= 2) == (32, "done", True)
    assert status["admitted"] == sum(status[way] for way in ("trained", "skipped", "aborted", "expired", "open"))
    best = json.loads(await anyio.to_thread.run_sync(ask, "best", "far", "--json"))
    assert best["score"] == status["best_score"]
    for words in (
        ("show", "far", str(best["candidate"]), "--json"),
        ("show", "far", "--islands"),
        ("db", "check", "far"),
        ("db", "sql", "far", "select * from leaderboard where run = 'simulated' order by rank limit 3"),
        ("db", "sql", "far", "select * from ages"),
        ("db", "upgrade", "far"),
        ("report", "far"),
        *(("export", "far", "--what", what) for what in ("candidates", "rollouts", "ideas", "updates")),
    ):
        await anyio.to_thread.run_sync(ask, *words)
    refused = shell.pace("db", "sql", "far", "delete from faults")
    assert refused.code == 2 and "delete is not allowed here, only what reads" in refused.err
    assert "pg_dump" in shell.pace("db", "backup", "far", "copy.db").err


@pytest.mark.long
@pytest.mark.fault("Database", "PostgreSQL restarted under a run")
async def test_a_run_whose_server_is_cut_off_waits_for_it_and_loses_nothing(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.05)
    url, heard, away = postgres.new(), list[Outage | FaultSeen](), anyio.Event()

    def hear(news: Outage | FaultSeen) -> None:
        heard.append(news)
        away.set()

    async def cut() -> None:
        await anyio.to_thread.run_sync(postgres.stop)
        await away.wait()
        await anyio.to_thread.run_sync(postgres.start)

    with anyio.fail_after(110):
        async with run_of(url, tmp_path, settings(stop__candidates=120)) as (core, store):
            store.be_patient(100.0, hear)
            async with anyio.create_task_group() as beside:
                beside.start_soon(cut)
                assert await drive(core) == "done"
    assert heard[0] == Outage("the database does not answer", heard[0].since if isinstance(heard[0], Outage) else 0)
    with open_readonly(url) as reader:
        assert reader.status()["candidates"] == 120
        assert [row["kind"] for row in reader.query("select kind from faults")].count("database_back") >= 1
        assert all(check.ok for check in check_population(reader))


async def test_a_transaction_that_a_crash_erased_counts_as_not_committed(postgres: PostgresServer) -> None:
    """Nor is one whose number another run's transaction has: the row of the run says which was its last."""
    url = postgres.new()
    async with Store.open(url) as store:
        await store.create_run(HEADER)
        await store.create_run(replace(HEADER, name="another"))
    asked = engine(locate(url), "write")
    with asked.begin() as connection:
        first = number_of(connection, 1)
    with asked.begin() as connection:
        since = number_of(connection, 2)
    with asked.begin() as connection:
        told = [was_made(connection, *of) for of in ((first, 1), (since, 2), (since, 1), (first, 2), (since, None))]
        beyond = [was_made(connection, str(int(since) + 1000), run_id) for run_id in (1, None)]
    asked.dispose()
    assert (told, beyond) == ([True, True, False, False, True], [False, False])


async def test_a_transaction_whose_acknowledgement_was_lost_is_committed_once(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.02)
    broken: list[str] = []
    with populations_on(postgres):
        async with fresh(tmp_path) as store:
            made = store._writer._engine  # pyright: ignore[reportPrivateUsage]
            commit = made.dialect.do_commit

            def lose_the_answer(connection: object) -> None:
                commit(connection)  # pyright: ignore[reportArgumentType]
                if not broken:
                    broken.append("once")
                    postgres.sql("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")
                    raise made.dialect.loaded_dbapi.OperationalError("server closed the connection unexpectedly")

            monkeypatch.setattr(made.dialect, "do_commit", lose_the_answer)
            with anyio.fail_after(60):
                await store.commit(*rollout(1))
            assert broken
            assert (await store.load()).candidates == 1


@pytest.mark.fault("Crash and resume", "a second resume is refused and names the holder")
async def test_a_run_on_a_server_is_driven_from_one_machine_at_a_time(tmp_path: Path, postgres: PostgresServer) -> None:
    with populations_on(postgres):
        async with fresh(tmp_path) as store:
            async with Store.open(store.place) as second:
                with pytest.raises(RunLocked, match=r"driven by pace on .*, process \d+ \(since "):
                    await second.load()
                with pytest.raises(Exception, match="before a run"):
                    await second.commit(opened(1))
            await store.commit(opened(1))
            place = store.place
        async with Store.open(place) as second:
            await second.load()
            await second.commit(opened(2))


async def test_a_commit_that_waits_for_a_lock_on_a_table_is_paused_and_goes_on(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pace_async.population.postgres.LOCK_WAIT_S", 0.1)
    monkeypatch.setattr(writer, "RETRY_S", 0.02)
    heard, away = list[Outage | FaultSeen](), anyio.Event()

    def hear(news: Outage | FaultSeen) -> None:
        heard.append(news)
        away.set()

    with populations_on(postgres):
        async with fresh(tmp_path) as store:
            store.be_patient(60.0, hear)
            other = engine(store.place, "migrate")
            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    with other.begin() as connection:
                        connection.exec_driver_sql("LOCK TABLE leases")
                        tasks.start_soon(store.commit, opened(1))
                        await away.wait()
            other.dispose()
            assert (await store.load()).admitted == 1
    assert isinstance(heard[0], Outage) and heard[0].reason == "the database is locked"


def test_a_server_that_is_not_there_is_one_sentence(tmp_path: Path, postgres: PostgresServer) -> None:
    with (
        pytest.raises(UsageError, match="cannot be reached: the database does not answer"),
        open_readonly(f"postgresql://pace@/any?host={tmp_path}"),
    ):
        pass
    with (
        pytest.raises(UsageError, match='cannot be reached: database "nowhere" does not exist'),
        open_readonly(postgres.url("nowhere")),
    ):
        pass


async def test_giving_up_on_a_server_names_its_address_and_nothing_else(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with populations_on(postgres):
        async with fresh(tmp_path) as store:
            store.be_patient(0.0, lambda _: None)

            def fail(_: Connection) -> None:
                raise OperationalError("select", {}, made.dialect.loaded_dbapi.OperationalError("connection lost"))

            made = store._writer._engine  # pyright: ignore[reportPrivateUsage]
            with pytest.raises(GaveUp, match=r"postgresql://pace@/pace_.* cannot be written"):
                await store._write(fail)  # pyright: ignore[reportPrivateUsage]


PASSWORDS = (
    "postgresql://me:correct-horse@host/pace",
    "postgresql://me@host/pace?password=correct-horse",
    "postgres://me:correct-horse@host/pace",
)


@pytest.mark.fault("Implementer", "a key is in no row, log or error")
@pytest.mark.parametrize("url", PASSWORDS)
def test_a_password_in_the_url_of_a_database_is_refused_and_not_repeated(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as located:
        locate(url)
    with pytest.raises(UsageError) as configured:
        settings(population__url=url)
    for raised in (located, configured):
        assert "PGPASSWORD" in str(raised.value)
        assert "correct-horse" not in str(raised.value)


def test_a_folder_points_to_its_run_on_a_server(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    assert paths.population == (tmp_path / "population.db", None) and not paths.exists
    paths.point_to("postgresql://me@host/pace")
    assert paths.population == ("postgresql://me@host/pace", tmp_path.name) and paths.exists
    paths.pointer.write_text("half\n")
    with pytest.raises(UsageError, match="must hold the URL"):
        _ = paths.population
