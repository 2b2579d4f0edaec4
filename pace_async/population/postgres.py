"""A population on a PostgreSQL server, which several runs and machines can share.

An acknowledged commit survives a power cut of the server (`synchronous_commit=on`). The process that drives a run holds
an advisory lock in its writing session, which is free when that session ends. Keep-alive packets from both sides are
its heartbeat: they end the session of a vanished machine within half a minute. Every wait for the server has a deadline
(`deadlines`). A server that accepts bytes and never answers counts as unreachable. A process that lost its session
takes the lock again before it writes. If a connection breaks during a COMMIT, the transaction's number tells whether it
was committed.

URLs never hold a password: libpq reads it from PGPASSWORD or ~/.pgpass.
"""

import os
import socket
from dataclasses import dataclass
from typing import Any, Literal

import anyio
import anyio.to_thread
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from pace_async.errors import RunLocked, UsageError
from pace_async.installing import install_line

Access = Literal["write", "read", "migrate"]
SPACE = 0x70616365
"""The first half of the keys of our advisory locks. The second is a run's id, or 0 for the schema."""
LOCK_WAIT_S = 5.0
"""How long one try waits for a lock on a table."""
BEAT_S, MISSED = 10, 3
"""Seconds between keep-alive packets, and how many of them may be lost."""
CONNECT_S = 5
"""How long one connection attempt may take."""
ANSWER_S, READ_S = 30.0, 300.0
"""How long one answer may take for the writer, whose statements are short, and for readers."""
HEAR_S = 10.0
"""How long a follower listens before it asks whether the server is still there."""
CHANNEL = "pace"
"""Every commit of a run notifies it."""
QUERY = ("host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey", "application_name")
POOLED = "is the address of a connection pooler, and a run's lock needs its own session: name the server's own address."
PASSING = ("08", "53", "57P", "57014", "55P03", "40")
"""Beginnings of SQLSTATE after which a retry can succeed: no connection, no room, shutdown or restart, too slow, an
unavailable lock, a conflict."""


@dataclass(frozen=True, slots=True)
class Server:
    """A database on a server. `url` has no password, so it may be shown and stored."""

    url: str

    def __str__(self) -> str:
        return self.url


def server(where: str) -> Server:
    """The database that a URL names. Raises UsageError for a URL with a password or without a database."""
    try:
        url = make_url(where)
    except ArgumentError:
        raise UsageError("That is not the URL of a database: postgresql://USER@HOST/NAME is one.") from None
    if url.password is not None or any("pass" in name.lower() for name in url.query):
        raise UsageError("The URL of the database holds a password: put it into PGPASSWORD or ~/.pgpass instead.")
    if not url.database:
        raise UsageError("The URL of the database names no database: postgresql://USER@HOST/NAME does.")
    unknown = sorted(set(url.query) - set(QUERY))
    if unknown:
        raise UsageError(f"The URL of the database may not set {unknown[0]!r}; it may set {', '.join(QUERY)}.")
    return Server(url.set(drivername="postgresql").render_as_string())


def refuse_unless_there(place: Server) -> None:
    """Raise UsageError, in one sentence, if the server does not answer or lacks the database, or if a pooler stands
    before it: then the lock and the settings of a session could be another client's."""
    reader = engine(place, "read")
    try:
        with reader.connect() as connection:
            if _is_pooled(connection):
                raise UsageError(f"{place} {POOLED}")
    except DBAPIError as error:
        if "unsupported startup parameter" in str(error.orig):
            raise UsageError(f"{place} {POOLED}") from None
        raise UsageError(f"{place} cannot be reached: {in_words(error)}.") from None
    finally:
        reader.dispose()


def _is_pooled(connection: Connection) -> bool:
    """Whether the process that answers is not the one that the connection began with. A pooler cannot know at the
    beginning which process of the server will answer, so it gives a number of its own."""
    driver_connection: Any = connection.connection.driver_connection
    return connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one() != driver_connection.info.backend_pid


def engine(place: Server, access: Access) -> Engine:
    """An engine for synchronous code. Raises UsageError if the driver is not installed."""
    try:
        new_engine = create_engine(_url(place), connect_args=_arguments(access))
        from pace_async.population.deadlines import connect_by
    except ModuleNotFoundError:
        raise UsageError(f"PostgreSQL needs a driver that is not installed: {install_line('postgres')}.") from None
    connect = connect_by({"write": ANSWER_S, "read": READ_S}.get(access))

    def connected(_dialect: Any, _record: Any, arguments: Any, named: Any) -> Any:
        return connect(*arguments, **named)

    event.listen(new_engine, "do_connect", connected)
    return new_engine


def reading_engine(place: Server) -> AsyncEngine:
    """An engine with a few connections for reading beside an event loop."""
    from pace_async.population.deadlines import connect_async_by

    arguments = {**_arguments("read"), "async_creator_fn": connect_async_by(READ_S)}
    return create_async_engine(_url(place), connect_args=arguments, pool_size=2, pool_pre_ping=True)


def will_pass(error: DBAPIError) -> bool:
    """Whether a later try can succeed. If it is unknown whether a transaction was committed, `was_made` tells."""
    state = _state(error)
    if not state and _refused(error):
        return False
    return error.connection_invalidated or state.startswith(PASSING) or (not state and "connect" in str(error.orig))


def in_words(error: DBAPIError) -> str:
    """The error in a few words, without connection parameters."""
    state = _state(error)
    if state == "55P03":
        return "the database is locked"
    if state == "53100":
        return "the disk of the database is full"
    if not state and _refused(error):
        return _refused(error)
    if will_pass(error):
        return "the database does not answer"
    return " ".join(str(error.orig).splitlines()[0].split())


def mark(connection: Connection) -> str:
    """A text that differs after every commit in the database, of this run or another."""
    return str(connection.exec_driver_sql("SELECT pg_current_snapshot()::text").scalar_one())


class Listening:
    """Hears of commits on the server, by one connection from the first wait on."""

    def __init__(self, reader: Engine) -> None:
        self._reader = reader
        self._connection: Connection | None = None

    async def wait(self) -> None:
        """Wait for a commit, at most HEAR_S seconds. The first wait returns once it listens, because earlier commits
        are not heard. Raises DBAPIError."""
        if self._connection is None:
            self._connection = await anyio.to_thread.run_sync(self._opened)
            return
        driver_connection: Any = self._connection.connection.driver_connection
        with anyio.move_on_after(HEAR_S):
            await anyio.wait_readable(driver_connection.fileno())
        try:
            await anyio.to_thread.run_sync(self._connection.exec_driver_sql, "SELECT 1")  # reads what has come
        except DBAPIError:
            self.close()
            raise

    def close(self) -> None:
        """Listen no longer."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _opened(self) -> Connection:
        connection = self._reader.connect().execution_options(isolation_level="AUTOCOMMIT")
        driver_connection: Any = connection.connection.driver_connection
        driver_connection.add_notify_handler(_unread)  # without a handler the driver keeps them all
        connection.exec_driver_sql(f"LISTEN {CHANNEL}")
        return connection


def _unread(_: object) -> None:
    """Nothing of a notification is read: it came."""


def number_of(connection: Connection, run_id: int | None) -> str:
    """The number of the open transaction, whose commit notifies those who listen. The transaction also updates its
    run's row, if there is one yet, which so carries the number."""
    if run_id is not None:
        connection.execute(text("UPDATE runs SET seed = seed WHERE run_id = :run_id"), {"run_id": run_id})
    notifying = f"SELECT pg_current_xact_id()::text FROM pg_notify('{CHANNEL}', '')"
    return str(connection.exec_driver_sql(notifying).scalar_one())


def was_made(connection: Connection, number: str, run_id: int | None) -> bool:
    """Whether the transaction of that number was committed. Precondition: its session has ended, and no later
    transaction wrote the run. A server crash can erase the transaction: its number is then unused, or another run's
    later transaction has it. So the run's row decides if there is one."""
    if run_id is not None:
        last = text("SELECT xmin::text FROM runs WHERE run_id = :run_id")
        return connection.execute(last, {"run_id": run_id}).scalar_one() == str(int(number) % 2**32)
    statement = text(
        "SELECT CASE WHEN CAST(:number AS xid8) < pg_snapshot_xmax(pg_current_snapshot()) "
        "THEN pg_xact_status(CAST(:number AS xid8)) END"
    )
    return connection.execute(statement, {"number": number}).scalar_one() == "committed"


def hold(connection: Connection, run_id: int) -> None:
    """Take the run for this session, or raise RunLocked, naming the holder. A second call changes nothing."""
    who = f"pace on {socket.gethostname()[:40]}, process {os.getpid()}"
    connection.execute(text("SELECT set_config('application_name', :who, false)"), {"who": who})
    key = {"space": SPACE, "run_id": run_id}
    if connection.execute(text(_HELD_HERE), key).first() is not None:
        return
    if not connection.execute(text("SELECT pg_try_advisory_lock(:space, :run_id)"), key).scalar_one():
        holder = connection.execute(text(_HOLDER), key).one_or_none()
        known = f"{holder.name} (since {holder.since})" if holder is not None else "another process"
        raise RunLocked(f"The run is driven by {known}: wait for it, or stop it first.")


def alone(connection: Connection) -> None:
    """Lock the schema until the transaction ends."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:space, 0)"), {"space": SPACE})


_LOCKS = """
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.classid = :space AND l.objid = :run_id AND l.objsubid = 2
AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
_HELD_HERE = f"SELECT 1 {_LOCKS} AND l.pid = pg_backend_pid()"
_HOLDER = (
    f"SELECT a.application_name AS name, to_char(a.backend_start, 'YYYY-MM-DD HH24:MI:SS') AS since {_LOCKS} LIMIT 1"
)


def _refused(error: DBAPIError) -> str:
    """The server's reason for refusing a connection, empty if it may accept one soon or gave no reason. libpq gives no
    code for it."""
    _, fatal, words = str(error.orig).rpartition("FATAL:")
    soon = ("starting up", "shutting down", "recovery", "too many", "terminating", "slots")
    return " ".join(words.split()) if fatal and not any(word in words for word in soon) else ""


def _state(error: DBAPIError) -> str:
    return str(getattr(error.orig, "sqlstate", None) or "")


def _url(place: Server) -> URL:
    return make_url(place.url).set(drivername="postgresql+psycopg")


def _arguments(access: Access) -> dict[str, Any]:
    settings: dict[str, object] = {
        "synchronous_commit": "on",
        "client_encoding": "UTF8",
        "timezone": "UTC",
        "lock_timeout": f"{LOCK_WAIT_S * 1000:.0f}",
        "tcp_keepalives_idle": BEAT_S,
        "tcp_keepalives_interval": BEAT_S,
        "tcp_keepalives_count": MISSED,
        "tcp_user_timeout": BEAT_S * MISSED * 1000,
        **({"statement_timeout": f"{ANSWER_S * 1000:.0f}"} if access == "write" else {}),
        "default_transaction_read_only": "on" if access == "read" else "off",
        # All answers within one transaction are of one moment.
        "default_transaction_isolation": "repeatable\\ read" if access == "read" else "read\\ committed",
    }
    return {
        "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
        "connect_timeout": CONNECT_S,
        "keepalives_idle": BEAT_S,
        "keepalives_interval": BEAT_S,
        "keepalives_count": MISSED,
        "tcp_user_timeout": BEAT_S * MISSED * 1000,
        "application_name": "pace",
        # A prepared text is one statement. Several could switch the transaction to writing.
        **({"prepare_threshold": 0} if access == "read" else {}),
    }
