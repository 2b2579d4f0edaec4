"""A database that cannot be written for a while: the run pauses, says so, loses nothing and goes on by itself."""

import json
import os
import resource
import signal
import sqlite3
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import pytest
from sqlalchemy import Connection

from pace_async.errors import GaveUp
from pace_async.events import Fact, FaultSeen, RunStateChanged, Stalled
from pace_async.observe.fold import fold
from pace_async.observe.model import RunView
from pace_async.observe.sections import standing
from pace_async.population import sqlite
from pace_async.population.checking import check_population
from pace_async.population.connect import Place
from pace_async.population.lock import RunLock, holder_of
from pace_async.population.reading.reader import open_readonly
from pace_async.population.store import Store
from pace_async.population.writing import writer
from pace_async.population.writing.outage import Outage, ignore_news
from pace_async.runtime.start.assemble import waiting
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.stages import World
from tests.support.command_line import Shell
from tests.support.population_facts import HEADER, fresh, opened, rollout
from tests.support.populations import damage_of
from tests.support.simulated_runs import Simulated, settings, simulated

LOCKED = "the database is locked"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A try ends, and the next begins, in a moment."""
    monkeypatch.setattr(sqlite, "WRITER_BUSY_S", 0.02)
    monkeypatch.setattr(writer, "RETRY_S", 0.02)


class Hearing:
    """The notices, and an event that the first of them sets."""

    def __init__(self) -> None:
        self.heard: list[Outage | FaultSeen] = []
        self.away, self.back = anyio.Event(), anyio.Event()

    def __call__(self, news: Outage | FaultSeen) -> None:
        self.heard.append(news)
        (self.away if isinstance(news, Outage) else self.back).set()


@contextmanager
def held(database: Place) -> Generator[None]:
    """Another connection writes to the database and does not end."""
    assert isinstance(database, Path)
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


@asynccontextmanager
async def driven(folder: Path, **given: object) -> AsyncGenerator[tuple[Simulated, Hearing, list[str]]]:
    """A simulated run that goes on beside the test, its notices, and how it ended."""
    ended: list[str] = []
    async with simulated(folder, settings(**given), World(seed=3)) as run:
        hearing = Hearing()
        run.store.be_patient(60.0, hearing)

        async def to_its_end() -> None:
            ended.append(await drive(run.core))

        async with anyio.create_task_group() as beside:
            beside.start_soon(to_its_end)
            yield run, hearing, ended


@pytest.mark.long
@pytest.mark.fault("Database", "locked for minutes: pauses and goes on by itself")
async def test_a_run_whose_database_is_locked_pauses_and_goes_on_by_itself(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with driven(tmp_path, stop__candidates=40) as (run, hearing, ended):
            with held(tmp_path / "population.db"):
                await hearing.away.wait()
                before = len(await run.store.query("select * from candidates"))
                for _ in range(200):
                    await anyio.lowlevel.checkpoint()
                assert len(await run.store.query("select * from candidates")) == before
            await hearing.back.wait()
    assert ended == ["done"]
    [outage, fact] = hearing.heard
    assert isinstance(outage, Outage) and outage.reason == LOCKED
    assert isinstance(fact, FaultSeen) and fact.kind == "database_back" and "nothing was lost" in fact.detail
    with open_readonly(tmp_path / "population.db") as reader:
        assert reader.status()["candidates"] == 40
        assert [row["kind"] for row in reader.query("select kind from faults")] == ["database_back"]
        assert all(check.ok for check in check_population(reader))


@pytest.mark.fault("Database", "full disk: pauses and goes on by itself")
async def test_a_full_disk_is_waited_for_until_there_is_room(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    hearing, acknowledged = Hearing(), 0

    async def write() -> None:
        nonlocal acknowledged
        while not hearing.back.is_set():
            await store.commit(*rollout(acknowledged + 1))
            acknowledged += 1

    async with fresh(tmp_path) as store:
        store.be_patient(60.0, hearing)
        resource.setrlimit(resource.RLIMIT_FSIZE, (_longest(tmp_path) + 20_000, hard))
        try:
            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(write)
                    await hearing.away.wait()
                    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, before)
        assert (await store.load()).candidates == acknowledged > 1
    with open_readonly(tmp_path / "population.db") as reader:
        assert damage_of(reader) == ()


def _longest(folder: Path) -> int:
    return max(file.stat().st_size for file in folder.iterdir())


async def test_waiting_writes_are_made_in_their_order(tmp_path: Path) -> None:
    hearing, order = Hearing(), list[int]()
    async with fresh(tmp_path) as store:
        store.be_patient(60.0, hearing)
        asked = list(range(1, 31))

        def note(number: int) -> None:
            def work(_: Connection) -> None:
                order.append(number)

            tasks.start_soon(store._write, work)  # pyright: ignore[reportPrivateUsage]

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                with held(store.place):
                    for number in asked[:20]:
                        note(number)
                    await hearing.away.wait()
                    for number in asked[20:]:
                        note(number)
                    await anyio.lowlevel.checkpoint()
    assert order == asked


async def test_a_run_gives_up_after_the_patience_set_and_the_resumed_one_has_lost_nothing(tmp_path: Path) -> None:
    async with simulated(tmp_path, settings(stop__candidates=16), World(seed=3)) as run:
        run.store.be_patient(0.1, ignore_news)
        with held(tmp_path / "population.db"), pytest.raises(GaveUp, match=r"locked.*nothing acknowledged is lost"):
            await drive(run.core)
    assert GaveUp.exit_code == 6
    async with simulated(tmp_path, settings(stop__candidates=16), World(seed=3)) as run:
        assert await drive(run.core) == "done"
        assert (await run.store.load()).candidates == 16


async def test_a_cancelled_caller_does_not_wait_and_its_write_is_made(
    tmp_path: Path,
) -> None:
    hearing = Hearing()
    async with fresh(tmp_path) as store:
        store.be_patient(60.0, hearing)
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                with held(store.place):
                    tasks.start_soon(store.commit, opened(1))
                    await hearing.away.wait()
                    tasks.cancel_scope.cancel()
                    await anyio.lowlevel.checkpoint_if_cancelled()
            await store.commit(opened(2))
        assert (await store.load()).admitted == 2


async def test_a_run_stopped_during_an_outage_ends_without_a_final_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pace_async.runtime.start.supervisor.LAST_WORD_S", 0.05)
    with anyio.fail_after(60), held_after(tmp_path) as hold:
        async with simulated(tmp_path, settings(stop__candidates=400), World(seed=3)) as run:
            hearing = Hearing()
            run.store.be_patient(600.0, hearing)
            hold()

            async def end() -> None:
                await hearing.away.wait()
                tasks.cancel_scope.cancel()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(end)
                await drive(run.core)
    async with Store.open(tmp_path / "population.db", create=False) as store:
        assert not (await store.load("simulated")).finished


@contextmanager
def held_after(folder: Path) -> "Generator[Holding]":
    holding = Holding(folder / "population.db")
    try:
        yield holding
    finally:
        holding.end()


class Holding:
    """Holds the database from when it is called."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._other: sqlite3.Connection | None = None

    def __call__(self) -> None:
        self._other = sqlite3.connect(self._database, isolation_level=None)
        self._other.execute("BEGIN IMMEDIATE")

    def end(self) -> None:
        if self._other is not None:
            self._other.close()


async def test_the_screen_says_that_the_run_is_paused_until_it_goes_on() -> None:
    view = fold(RunView(HEADER), RunStateChanged("running", "", 1.0))
    view = fold(view, Stalled(LOCKED, 5.0))
    assert view.latest is not None and "goes on by itself" in view.latest.text
    assert standing(view)[0] == f"paused: {LOCKED}"
    back: Fact = FaultSeen("population", "database_back", "", None, 9.0)
    assert standing(fold(view, back))[0] == "running"


def test_status_says_what_a_run_waits_for_and_since_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def begin() -> None:
        async with fresh(tmp_path) as store:
            await store.commit(RunStateChanged("running", "", 1.0))

    anyio.run(begin)
    shell = Shell(tmp_path, monkeypatch, capsys)

    def advising(*_: object) -> dict[str, str]:
        return {"advice": "More threads would help."}

    monkeypatch.setattr("pace_async.observe.ledger.ledger_of_rows", advising)
    with RunLock(tmp_path) as lock:
        say = waiting(lock)
        working = json.loads(shell.pace("status", str(tmp_path), "--json").out)
        assert (working["waiting"], working["advice"]) == (None, "More threads would help.")
        say(Outage(LOCKED, 1_763_700_000.0))
        holder = holder_of(tmp_path)
        assert holder is not None and holder.pid == os.getpid()
        found = json.loads(shell.pace("status", str(tmp_path), "--json").out)
        assert found["waiting"] == {"for": LOCKED, "since": 1_763_700_000.0}
        assert found["advice"] is None
        assert f"waits       {LOCKED}, since 2025-" in shell.pace("status", str(tmp_path)).out
        say(FaultSeen("population", "database_back", "", None, 2.0))
        assert json.loads(shell.pace("status", str(tmp_path), "--json").out)["waiting"] is None
    assert holder_of(tmp_path) is None


@pytest.mark.parametrize("kind", ["all_providers_down", "engine_died"])
async def test_status_reads_what_a_run_waits_for_from_its_rows(tmp_path: Path, kind: str) -> None:
    async with fresh(tmp_path) as store:
        old = FaultSeen("implement", kind, "", None, 5.0)
        await store.commit(old, RunStateChanged("running", "", 10.0))
        with open_readonly(store.place) as reader:
            assert reader.status()["waiting"] is None
            await store.commit(FaultSeen("implement", kind, "", None, 20.0))
            waits = reader.status()["waiting"]
            assert waits["since"] == 20.0 and waits["for"]
            await store.commit(FaultSeen("implement", kind.partition("_")[0] + "_back", "", None, 30.0))
            back = "provider_back" if kind.startswith("all") else "engine_back"
            await store.commit(FaultSeen("implement", back, "", None, 40.0))
            assert reader.status()["waiting"] is None
