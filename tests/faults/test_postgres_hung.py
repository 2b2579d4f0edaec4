"""A PostgreSQL that hangs, or a way to it that swallows every byte: a deadline, a reported outage, patience."""

import os
import selectors
import signal
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

import anyio
import psutil
import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import OperationalError

from pace_async.errors import GaveUp, UsageError
from pace_async.events import FaultSeen
from pace_async.population import postgres as rules
from pace_async.population.checking import check_population
from pace_async.population.connect import engine, in_words, locate, reading_engine, will_pass
from pace_async.population.reading import typed
from pace_async.population.reading.reader import open_readonly
from pace_async.population.writing import writer
from pace_async.population.writing.outage import Outage
from pace_async.runtime.start.supervisor import drive
from tests.support.postgres import PostgresServer
from tests.support.postgres_runs import run_of
from tests.support.simulated_runs import settings


class Way:
    """A proxy to the server on a loopback port, in a separate thread. From `swallow` on it accepts all bytes of present
    and new connections and forwards none. From `heal` on new connections work, and the others are closed."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._swallowed: set[socket.socket] = set()
        self._swallows = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._told, self._tells = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for each in (self._listener, self._told):
            self._selector.register(each, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def swallow(self) -> None:
        self._tell(b"s")

    def heal(self) -> None:
        self._tell(b"h")

    def close(self) -> None:
        self._tell(b"x")
        self._thread.join()
        for each in (self._listener, self._told, self._tells, self._selector):
            each.close()

    def _tell(self, command: bytes) -> None:
        self._tells.sendall(command)
        assert self._tells.recv(1) == command

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                ready = key.fileobj
                if ready is self._listener:
                    self._accept()
                elif ready is self._told:
                    command = self._told.recv(1)
                    self._obey(command)
                    self._told.sendall(command)
                    if command == b"x":
                        return
                elif ready in self._pairs:
                    self._pass_on(cast("socket.socket", ready))

    def _obey(self, command: bytes) -> None:
        self._swallows = command == b"s"
        if self._swallows:
            self._swallowed |= set(self._pairs)
            return
        for each in [each for each in self._pairs if command == b"x" or each in self._swallowed]:
            self._end(each)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._upstream)
        self._pairs |= {client: server, server: client}
        for each in (client, server):
            self._selector.register(each, selectors.EVENT_READ)
            if self._swallows:
                self._swallowed.add(each)

    def _pass_on(self, source: socket.socket) -> None:
        data = b""
        with suppress(OSError):
            data = source.recv(65536)
        if source in self._swallowed:
            if not data:
                self._selector.unregister(source)
            return
        with suppress(OSError):
            if data:
                self._pairs[source].sendall(data)
                return
        self._end(source)

    def _end(self, one: socket.socket) -> None:
        other = self._pairs.pop(one, None)
        if other is None:
            return
        self._pairs.pop(other)
        for each in (one, other):
            self._swallowed.discard(each)
            with suppress(KeyError):
                self._selector.unregister(each)
            each.close()


@contextmanager
def way_to(server: PostgresServer) -> Generator[Way]:
    way = Way(str(server.folder / ".s.PGSQL.5432"))
    try:
        yield way
    finally:
        way.close()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.05)
    monkeypatch.setattr(rules, "ANSWER_S", 1.0)
    monkeypatch.setattr(rules, "READ_S", 2.0)
    monkeypatch.setattr(rules, "CONNECT_S", 2)


@pytest.mark.long
@pytest.mark.usefixtures("soon")
@pytest.mark.fault("Sick, not dead", "a way to PostgreSQL that swallows every byte: told, waited for, nothing lost")
async def test_a_run_whose_network_drops_everything_waits_and_goes_on(tmp_path: Path, postgres: PostgresServer) -> None:
    database = str(make_url(postgres.new()).database)
    heard, away, half = list[Outage | FaultSeen](), anyio.Event(), anyio.Event()

    def hear(news: Outage | FaultSeen) -> None:
        heard.append(news)
        away.set()

    with way_to(postgres) as way, anyio.fail_after(110):
        url = f"postgresql://pace@127.0.0.1:{way.port}/{database}"
        async with run_of(url, tmp_path, settings(stop__candidates=60)) as (core, store):
            store.be_patient(100.0, hear)

            async def trouble() -> None:
                await core.wait_until(lambda: core.state.evaluated >= 20)
                way.swallow()
                half.set()
                await away.wait()
                way.heal()

            async with anyio.create_task_group() as beside:
                beside.start_soon(trouble)
                assert await drive(core) == "done"
    assert half.is_set()
    assert isinstance(heard[0], Outage) and heard[0].reason == "the database does not answer"
    with open_readonly(postgres.url(database)) as reader:
        assert reader.status()["candidates"] == 60
        assert "database_back" in [row["kind"] for row in reader.query("select kind from faults")]
        assert all(check.ok for check in check_population(reader))


@pytest.mark.fault("Configuration and terminal", "one call of a function that never returns is ended")
def test_a_typed_statement_that_the_server_does_not_end_is_ended_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, postgres: PostgresServer
) -> None:
    monkeypatch.setattr(typed, "SERVER_S", 0.5)

    async def made(url: str) -> None:
        async with run_of(url, tmp_path, settings(stop__candidates=4)) as (core, _):
            assert await drive(core) == "done"

    url = postgres.new()
    anyio.run(made, url)
    with way_to(postgres) as way:
        through = f"postgresql://pace@127.0.0.1:{way.port}/{make_url(url).database}"
        with open_readonly(through) as reader:
            assert reader.sql("SELECT count(*) FROM runs", 60.0).rows == ((1,),)
            way.swallow()
            with pytest.raises(UsageError, match=r"took longer than 0\.5 s"):
                reader.sql("SELECT count(*) FROM runs", 0.5)


@pytest.mark.long
@pytest.mark.usefixtures("soon")
@pytest.mark.fault("Sick, not dead", "a PostgreSQL that hangs: told, given up by patience, and resumed")
async def test_a_run_whose_server_hangs_gives_up_by_patience_and_a_resume_goes_on(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url, heard = postgres.new(), list[Outage | FaultSeen]()
    master = int((postgres.folder / "data" / "postmaster.pid").read_text().split()[0])
    frozen: list[int] = []
    try:
        with anyio.fail_after(110), pytest.raises(GaveUp, match=r"cannot be written \(the database does not answer"):
            async with run_of(url, tmp_path, settings(stop__candidates=60)) as (core, store):
                store.be_patient(1.0, heard.append)

                async def freeze() -> None:
                    await core.wait_until(lambda: core.state.evaluated >= 20)
                    frozen.extend([master, *(child.pid for child in psutil.Process(master).children(recursive=True))])
                    for pid in frozen:
                        os.kill(pid, signal.SIGSTOP)

                raised: GaveUp | None = None
                async with anyio.create_task_group() as beside:
                    beside.start_soon(freeze)
                    try:
                        await drive(core)
                    except GaveUp as gave_up:
                        raised = gave_up
                    beside.cancel_scope.cancel()
                if raised is not None:
                    raise raised
    finally:
        for pid in frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    assert isinstance(heard[-1], Outage)
    async with run_of(url, tmp_path, settings(stop__candidates=60)) as (core, _):
        with anyio.fail_after(110):
            assert await drive(core) == "done"
    with open_readonly(url) as reader:
        assert reader.status()["candidates"] == 60
        assert all(check.ok for check in check_population(reader))


@pytest.mark.usefixtures("soon")
async def test_a_reader_whose_network_drops_everything_gets_an_error_at_its_deadline(
    postgres: PostgresServer,
) -> None:
    database = str(make_url(postgres.new()).database)
    with way_to(postgres) as way, anyio.fail_after(60):
        place = locate(f"postgresql://pace@127.0.0.1:{way.port}/{database}")
        plain, beside = engine(place, "read"), reading_engine(place)
        with plain.connect() as connection:
            async with beside.connect() as other:
                connection.execute(text("select 1"))
                await other.execute(text("select 1"))
                way.swallow()
                with pytest.raises(OperationalError, match="no answer for 2 s") as told:
                    await other.execute(text("select 2"))
                with pytest.raises(OperationalError, match="no answer for 2 s"):
                    connection.execute(text("select 2"))
        assert will_pass(told.value)
        assert in_words(told.value) == "the database does not answer"
        plain.dispose()
        await beside.dispose()


@pytest.mark.usefixtures("soon")
async def test_a_statement_that_the_server_itself_cuts_off_is_tried_again(postgres: PostgresServer) -> None:
    asked = engine(locate(postgres.new()), "write")
    with asked.connect() as connection, pytest.raises(OperationalError) as told:
        connection.execute(text("select pg_sleep(60)"))
    assert will_pass(told.value)
    asked.dispose()
