"""Runs one typed statement, which may only read this database, within a time limit.

Invariant: the database itself enforces this for any statement. SQLite asks an authorizer about each action and a
progress handler whether to continue. A timer interrupts it between two rows, because a slow function is one
instruction. A server uses a read-only transaction, accepts one statement at a time, and ends
it by its own clock.
"""

import math
import re
import sqlite3
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pace_async.errors import UsageError

MOST_ROWS = 1_000_000
LONGEST_VALUE = 256 << 20
LONGEST_STRICT = 256 << 10
"""The slowest function takes a second on texts of so many bytes."""
STEPS = 10_000
"""Instructions of SQLite between two readings of the clock."""
_READS = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
_ENDLESS = ("printf", "format")
"""Functions that work as long as their arguments say, not as long as these are."""
_ABOUT = (
    *("table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list"),
    *("foreign_key_check", "integrity_check", "quick_check"),
)
"""Pragmas that only read, with or without an argument."""
_STANDING = (
    *("database_list", "compile_options", "collation_list", "function_list", "module_list", "pragma_list"),
    *("user_version", "schema_version", "application_id", "data_version", "encoding", "journal_mode", "query_only"),
    *("page_count", "page_size", "freelist_count", "foreign_keys"),
)
"""Pragmas that read if they get no value."""
_WRITES = {
    getattr(sqlite3, name): name.removeprefix("SQLITE_").replace("_", " ").lower()
    for name in dir(sqlite3)
    if re.fullmatch(
        r"SQLITE_((CREATE|DROP)_\w+|ALTER_TABLE|ANALYZE|ATTACH|DETACH|DELETE|INSERT|UPDATE|REINDEX|SAVEPOINT"
        r"|TRANSACTION)",
        name,
    )
}
_SERVER_ACTS = ("copy", "do", "call", "execute", "prepare", "listen", "notify", "load", "lock", "set", "reset")
"""Actions besides reading that a server allows in a read-only transaction."""
_COMMENTS = re.compile(r"\s+|--[^\n]*(\n|$)|/\*.*?\*/|\(", re.DOTALL)
_TIMED_OUT = "57014"


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows of a statement, in order."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def ask(connection: Connection, statement: str, timeout_s: float, remedy: str = "", *, strict: bool = False) -> Answer:
    """The statement's rows, within `timeout_s` seconds. `remedy` ends the sentence of one that takes longer. `strict`
    also refuses what makes one call of a function of SQLite slow, because nothing can end a call. Raises
    UsageError, with the reason in lower case, if the statement is refused, takes longer, or gives more than MOST_ROWS
    rows."""
    if not (math.isfinite(timeout_s) and timeout_s > 0):
        raise UsageError(f"--timeout must be a number of seconds above 0, not {timeout_s}.")
    if not _after_comments(statement).strip("; \t\r\n"):
        raise UsageError("it is empty: write one that reads, such as `select * from leaderboard limit 5`")
    if not connection.in_transaction():
        connection.begin()
    is_file = connection.dialect.name == "sqlite"
    limited = _in_file(connection, timeout_s, strict) if is_file else _on_server(connection, statement, timeout_s)
    with limited as why:
        try:
            # the server's driver takes % for the mark of a parameter
            result = connection.exec_driver_sql(statement if is_file else statement.replace("%", "%%"))
            if not result.returns_rows:
                return Answer((), ())
            columns, rows = tuple(result.keys()), result.fetchmany(MOST_ROWS + 1)
        except DBAPIError as error:
            raise UsageError(_in_words(error, why, f"it took longer than {timeout_s:g} s{remedy}")) from None
        except (sqlite3.Warning, UnicodeError, ValueError) as error:  # such as two statements, or a text cut in half
            raise UsageError(str(error).rstrip(".")) from None
    if len(rows) > MOST_ROWS:
        raise UsageError(f"it gives more than {MOST_ROWS:,} rows: add a LIMIT, or use `pace export`")
    return Answer(columns, tuple(tuple(row) for row in rows))


def _after_comments(statement: str) -> str:
    at = 0
    while (skipped := _COMMENTS.match(statement, at)) is not None:
        at = skipped.end()
    return statement[at:]


def not_allowed(refused: list[str]) -> str:
    """The reason why a statement was refused."""
    return f"{refused[-1]} is not allowed here, only what reads"


@contextmanager
def only_reading(connection: sqlite3.Connection, *, strict: bool = False) -> Generator[list[str]]:
    """While the body runs, the connection may only read its own database. `strict` as for `ask`. The list collects what
    was refused, in words."""
    refused: list[str] = []
    functions = ("load_extension", *(_ENDLESS if strict else ()))

    def decide(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action in _READS and not (action == sqlite3.SQLITE_FUNCTION and str(second).lower() in functions):
            return sqlite3.SQLITE_OK
        name = str(first).lower()
        if action == sqlite3.SQLITE_TRANSACTION and name == "rollback":  # after an error, by the library
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and (name in _ABOUT or (name in _STANDING and second is None)):
            return sqlite3.SQLITE_OK
        what = f"pragma {name}" if action == sqlite3.SQLITE_PRAGMA else _WRITES.get(action, "that")
        refused.append(str(second).lower() if action == sqlite3.SQLITE_FUNCTION else what)
        return sqlite3.SQLITE_DENY

    for table in ("json_each", "json_tree"):  # a first use under the authorizer would be refused as a creation
        with suppress(sqlite3.Error):
            connection.execute(f"SELECT 1 FROM {table}('[]')").close()
    connection.set_authorizer(decide)
    try:
        yield refused
    finally:
        connection.set_authorizer(None)


@contextmanager
def _in_file(connection: Connection, timeout_s: float, strict: bool) -> Generator[list[str]]:
    driver = cast("sqlite3.Connection", connection.connection.dbapi_connection)
    deadline = time.monotonic() + timeout_s
    before = driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_STRICT if strict else LONGEST_VALUE)
    alarm = threading.Timer(min(timeout_s, threading.TIMEOUT_MAX), driver.interrupt)
    alarm.daemon = True
    alarm.start()
    driver.set_progress_handler(lambda: int(time.monotonic() > deadline), STEPS)
    try:
        with only_reading(driver, strict=strict) as refused:
            yield refused
    finally:
        alarm.cancel()
        alarm.join()  # it interrupts no later statement
        driver.set_progress_handler(None, 0)
        driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, before)


@contextmanager
def _on_server(connection: Connection, statement: str, timeout_s: float) -> Generator[list[str]]:
    word = re.match(r"\w+", _after_comments(statement))
    if word and (first := word[0].lower()) in _SERVER_ACTS:
        raise UsageError(not_allowed([first]))
    connection.exec_driver_sql(f"SET LOCAL statement_timeout = {min(2**31 - 1, max(1, round(1000 * timeout_s)))}")
    yield []


def _in_words(error: DBAPIError, refused: list[str], took_longer: str) -> str:
    late = (
        getattr(error.orig, "sqlite_errorname", "") == "SQLITE_INTERRUPT"
        or getattr(error.orig, "sqlstate", "") == _TIMED_OUT
    )
    if late:
        return took_longer
    if refused:
        return not_allowed(refused)
    return str(error.orig).rstrip(".")
