"""A population in a SQLite file, for one machine.

The write-ahead log lets readers never wait for the writer. With `synchronous=FULL` an acknowledged commit survives a
power cut, not only a killed process. It costs one more fsync a commit, about a millisecond, while evaluations take
seconds. It is needed because a published version or spent money cannot be undone. Every write transaction takes the
write lock at once (BEGIN IMMEDIATE), because a transaction that first reads fails if another wrote before its first
write. Foreign keys are on. Readers open the file read-only and cannot create it.

A reader that may not write the folder cannot make the log's files. Where there are none it opens the file as immutable,
which SQLite then never looks at again. Such a connection serves only until the file or its log changes (`mark`).
"""

import os
import time
from pathlib import Path
from threading import Lock
from typing import Any, Literal
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.aiosqlite import SQLiteDialect_aiosqlite
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.exc import DatabaseError, DBAPIError, DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.util import LRUCache

from pace_async.errors import UsageError
from pace_async.population.prepared import Prepared

BUSY_TIMEOUT_S = 60.0
WRITER_BUSY_S = 5.0
"""How long one try of a run's writer waits for a lock before the next try (`writer`)."""
MOST_OPEN = 256
"""Files that stay open after their headers were read."""
_OPEN: dict[tuple[int, int], int] = {}
"""Their descriptors, by device and number."""
_OPENING = Lock()
MAGIC = b"SQLite format 3\x00"
_IMMUTABLE = "&immutable=1"
_OPENED = "opened"
"""Under this name a reading connection's `info` has its address, its path and the `mark` from before it was opened."""
Access = Literal["write", "read", "migrate"]


class _Equal:
    """Dialects of one class compile a statement alike, so a process compiles it once, not again for each engine."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


class Files(_Equal, SQLiteDialect_pysqlite):
    """For synchronous code."""

    supports_statement_cache = True


class FilesBeside(_Equal, SQLiteDialect_aiosqlite):
    """For reading beside an event loop."""

    supports_statement_cache = True


registry.register("sqlite.files", __name__, "Files")
registry.register("sqlite.files_beside", __name__, "FilesBeside")
_COMPILED: dict[str, Any] = {"compiled_cache": LRUCache[Any, Any](1000)}


def refuse_unless_sound(path: Path) -> None:
    """Raise UsageError, in one sentence, if the header or size shows that `path` is not a complete SQLite file. Reads
    100 bytes and creates nothing."""
    try:
        header = _header(path)
    except FileNotFoundError:
        raise UsageError(f"There is no population at {path}.") from None
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from None
    if len(header) < 100 or not header.startswith(MAGIC):
        raise UsageError(f"{path} is not a population database, or is damaged: restore it from a backup.")
    page = int.from_bytes(header[16:18], "big")
    needed = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
    log = path.with_name(path.name + "-wal")
    settled = not (log.exists() and log.stat().st_size)
    if settled and path.stat().st_size < needed:
        raise UsageError(
            f"{path} is cut short ({path.stat().st_size} bytes where {needed} belong): restore it from a backup."
        )


def _header(path: Path) -> bytes:
    """The first 100 bytes of a file, which stays open: closing it would end every lock that SQLite holds on it in this
    process (POSIX). Another process would then take itself for the last one, and remove the log that is read here."""
    with _OPENING:
        status = path.stat()
        if (file := (status.st_dev, status.st_ino)) not in _OPEN:
            removed = [inode for inode, descriptor in _OPEN.items() if not os.fstat(descriptor).st_nlink]
            for other in {*removed, *[*_OPEN][:-MOST_OPEN]}:
                os.close(_OPEN.pop(other))
            _OPEN[file] = os.open(path, os.O_RDONLY)
        return os.pread(_OPEN[file], 100, 0)


def mark(path: Path) -> str:
    """A text that differs after every commit, from the times and sizes of the file and its log. Opens nothing."""
    stamps: list[str] = []
    for file in (path, path.with_name(path.name + "-wal")):
        try:
            status = file.stat()
        except OSError:
            continue
        stamps.append(f"{status.st_size}:{status.st_mtime_ns}")
    return " ".join(stamps)


def reading_uri(path: Path) -> str:
    """The address under which to open the file for reading now. It is immutable where the file has no log and none can
    be made here."""
    log = path.with_name(path.name + "-wal")
    alone = not log.exists() and not os.access(path.parent, os.W_OK)
    return f"file:{quote(str(path))}?mode=ro{_IMMUTABLE if alone else ''}"


def uri_of(connection: Connection) -> str:
    """The address under which a reading connection has been opened."""
    return connection.info[_OPENED][0]


def reading_engine(path: Path) -> AsyncEngine:
    """An engine with a few connections for reading beside an event loop. The caller disposes of it."""
    async_engine = create_async_engine(
        _url("sqlite+files_beside", path, "read"),
        connect_args=_arguments("read"),
        pool_size=2,
        execution_options=_COMPILED,
    )
    _configure(async_engine.sync_engine, "read")
    _decide_at_each_connection(async_engine.sync_engine, path)
    return async_engine


def engine(path: Path, access: Access) -> Engine:
    """An engine for synchronous code."""
    sync_engine = create_engine(
        _url("sqlite+files", path, access), connect_args=_arguments(access), execution_options=_COMPILED
    )
    _configure(sync_engine, access)
    if access == "read":
        _decide_at_each_connection(sync_engine, path)
    return sync_engine


def data_version(connection: Connection) -> int:
    """A number that differs, of the same connection, after every commit of another one."""
    version = connection.exec_driver_sql("PRAGMA data_version").scalar_one()
    connection.rollback()
    return version


def is_outdated(connection: Connection) -> bool:
    """Whether this connection sees no more commits: it is immutable, and the file or its log has changed since."""
    return _outdated(*connection.info[_OPENED])


def _outdated(uri: str, path: Path, earlier_mark: str) -> bool:
    return uri.endswith(_IMMUTABLE) and earlier_mark != mark(path)


def changed_meanwhile(connection: Connection) -> bool:
    """`changed_since`, for a reading connection."""
    return changed_since(*connection.info[_OPENED])


def changed_since(uri: str, path: Path, earlier_mark: str) -> bool:
    """Whether a writer has changed the file since its `mark` was `earlier_mark`, although `uri` is immutable: rows that
    were read may be of two moments. What is only in the log does not count."""
    return uri.endswith(_IMMUTABLE) and earlier_mark.split(" ")[0] != mark(path).split(" ")[0]


def dangling(connection: Connection) -> list[str]:
    """Rows with broken references, in words."""
    return [
        f"row {row} of {table} refers to a row of {target} that is not there"
        for table, row, target, _ in connection.exec_driver_sql("PRAGMA foreign_key_check")
    ]


def damage(connection: Connection) -> list[str]:
    """The damage that the database's own check finds, in words."""
    try:
        lines = [row[0] for row in connection.exec_driver_sql("PRAGMA integrity_check")]
    except DatabaseError as error:
        return [str(error.orig)]
    return [line for line in lines if line != "ok"]


QUICK_S = 2.0


def damage_soon(path: Path, seconds: float = QUICK_S) -> str:
    """The first damage that a quick check finds within so many seconds, in words, empty if it finds none."""
    checked, until = engine(path, "read"), time.monotonic() + seconds
    try:
        with checked.connect() as connection:
            own: Any = connection.connection.driver_connection
            own.set_progress_handler(lambda: time.monotonic() > until, 10_000)
            verdict = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
    except DatabaseError as error:
        return str(error.orig) if is_damage(error) else ""
    finally:
        checked.dispose()
    return "" if verdict == "ok" else " ".join(verdict.split())


_KINDS = {"numbers": "'integer', 'real', 'null'", "texts": "'text', 'null'"}
_DECLARED = {"DOUBLE": "numbers", "FLOAT": "numbers", "INTEGER": "numbers", "BIGINT": "numbers", "BOOLEAN": "numbers"}


def mistyped(path: Path) -> str:
    """The first value of another type than its column's, in words, empty if there is none. SQLite takes any value in
    any column. Reads every row. Raises DatabaseError for a damaged file."""
    checked = engine(path, "read")
    try:
        with checked.begin() as connection:
            columns = connection.exec_driver_sql(
                "SELECT m.name, c.name, c.type FROM sqlite_master m JOIN pragma_table_info(m.name) c "
                "WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%'"
            ).all()
            for table, column, declared in columns:
                kind = _DECLARED.get(str(declared), "texts" if declared == "TEXT" else "")
                if not kind:
                    continue
                row = connection.exec_driver_sql(
                    f'SELECT typeof("{column}"), count(*) FROM "{table}" WHERE typeof("{column}") NOT IN '
                    f"({_KINDS[kind]}) GROUP BY 1"
                ).first()
                if row is not None:
                    return f"{table}.{column} holds {kind}, and {row[1]} of its values are of the type {row[0]}"
    finally:
        checked.dispose()
    return ""


def is_damage(error: DBAPIError) -> bool:
    """Whether the file itself is damaged."""
    return _code(error).startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


_PASSING = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR_WRITE")
_WORDS = {"SQLITE_BUSY": "the database is locked", "SQLITE_FULL": "the disk is full"}


def will_pass(error: DBAPIError) -> bool:
    """Whether a later try can succeed: the database is locked, or the disk is full. The transaction then left nothing
    on the disk and can be repeated."""
    return _code(error).startswith(_PASSING)


def in_words(error: DBAPIError) -> str:
    """The error in a few words."""
    code = _code(error)
    return next((words for name, words in _WORDS.items() if code.startswith(name)), str(error.orig))


def _code(error: DBAPIError) -> str:
    return str(getattr(error.orig, "sqlite_errorname", ""))


def _arguments(access: Access) -> dict[str, Any]:
    return {"timeout": WRITER_BUSY_S if access == "write" else BUSY_TIMEOUT_S, "isolation_level": None}


def _url(driver: str, path: Path, access: Access) -> URL:
    query = {"uri": "true", "mode": "ro" if access == "read" else "rwc"}
    return URL.create(driver, database=f"file:{quote(str(path))}", query=query)


def _decide_at_each_connection(engine: Engine, path: Path) -> None:
    """Open the file by `reading_uri`, and close an immutable connection when the file has changed since."""

    def connecting(_dialect: Any, record: Any, arguments: list[Any], _options: dict[str, Any]) -> None:
        opening_mark = mark(path)
        arguments[0] = uri = reading_uri(path)
        record.info[_OPENED] = uri, path, opening_mark

    def checked_out(_connection: Any, record: Any, _proxy: Any) -> None:
        if _outdated(*record.info[_OPENED]):
            raise DisconnectionError("the file has changed")

    event.listen(engine, "do_connect", connecting)
    event.listen(engine, "checkout", checked_out)


def _configure(engine: Engine, access: Access) -> None:
    begin = Prepared(text("BEGIN" if access == "read" else "BEGIN IMMEDIATE"))
    pragmas = {
        "write": ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"),
        "migrate": ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=OFF"),
        "read": ("query_only=ON",),
    }[access]

    def connected(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    def begun(connection: Connection) -> None:
        begin.run(connection, {})

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
