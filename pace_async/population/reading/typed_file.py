"""Answers typed statements about a SQLite file, in a process of its own, which is killed at its deadline.

Invariant: whatever a statement calls ends in time. Nothing but a kill ends one call of a function of SQLite, so the
process ends itself by a timer of the kernel, and at once when the process that started it is gone. SQLite asks an
authorizer about each action, so a statement can only read its own database. Memory is bounded.

This file is run by its path, without site packages, and starts in some 20 ms. So it imports nothing of the package.
Requests and replies are values of `marshal`.
"""

import marshal
import math
import os
import re
import resource
import signal
import sqlite3
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any

MOST_ROWS = 1_000_000
LONGEST_VALUE = 256 << 20
_READS = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
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

Reply = tuple[str, tuple[str, ...], list[tuple[Any, ...]]]
"""Why a statement was refused (empty if it was not), the names of its columns, and its rows."""


def not_allowed(refused: list[str]) -> str:
    """The reason why a statement was refused."""
    return f"{refused[-1]} is not allowed here, only what reads"


@contextmanager
def only_reading(connection: sqlite3.Connection) -> Generator[list[str]]:
    """While the body runs, the connection may only read its own database. The list collects what was refused, in
    words."""
    refused: list[str] = []

    def decide(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action in _READS and not (action == sqlite3.SQLITE_FUNCTION and str(second).lower() == "load_extension"):
            return sqlite3.SQLITE_OK
        name = str(first).lower()
        if action == sqlite3.SQLITE_TRANSACTION and name == "rollback":  # after an error, by the library
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and (name in _ABOUT or (name in _STANDING and second is None)):
            return sqlite3.SQLITE_OK
        operation = f"pragma {name}" if action == sqlite3.SQLITE_PRAGMA else _WRITES.get(action, "that")
        refused.append(str(second).lower() if action == sqlite3.SQLITE_FUNCTION else operation)
        return sqlite3.SQLITE_DENY

    _make_named_tables(connection)
    connection.set_authorizer(decide)
    try:
        yield refused
    finally:
        connection.set_authorizer(None)


def _make_named_tables(connection: sqlite3.Connection) -> None:
    """Make the tables, such as `json_each` and `pragma_table_info`, that SQLite makes in memory when a statement first
    names one. Under the authorizer that would be refused as a creation. EXPLAIN reads none of them."""
    pragmas = [f"pragma_{name}" for (name,) in connection.execute("PRAGMA pragma_list")]
    for table in (*pragmas, *(name for (name,) in connection.execute("PRAGMA module_list").fetchall())):
        with suppress(sqlite3.Error):  # of a module without a table of its own
            connection.execute(f'EXPLAIN SELECT 1 FROM "{table}"').close()


def main(database: str, timeout_s: float, memory: int) -> None:
    """Answer statements, in one transaction, until standard input ends or the time since the first one is over.
    `memory` is in bytes."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM, signal.SIGINT})
    for limit, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0)):
        with suppress(OSError, ValueError):  # the machine's own limit is lower
            resource.setrlimit(limit, (value, value))
    statements: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_heard, args=(statements,), daemon=True).start()
    connection = sqlite3.connect(database, uri=True, isolation_level=None, timeout=60)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    connection.create_function("regexp", 2, _is_match, deterministic=True)
    connection.create_function("floor", 1, math.floor, deterministic=True)  # often not built in
    connection.execute("PRAGMA query_only=ON")
    connection.execute("BEGIN")
    with only_reading(connection) as refused:
        statement = statements.get()
        signal.setitimer(signal.ITIMER_REAL, timeout_s)
        while True:
            marshal.dump(_answered(connection, refused, statement), sys.stdout.buffer)
            sys.stdout.buffer.flush()
            statement = statements.get()


def _heard(statements: SimpleQueue[str]) -> None:
    """Pass statements on. The end of standard input ends the process, also in the middle of a statement."""
    try:
        while True:
            statements.put(marshal.load(sys.stdin.buffer))
    except EOFError:
        os._exit(0)


def _answered(connection: sqlite3.Connection, refused: list[str], statement: str) -> Reply:
    refused.clear()
    try:
        cursor = connection.execute(statement)
        if cursor.description is None:
            return "", (), []
        return "", tuple(column[0] for column in cursor.description), cursor.fetchmany(MOST_ROWS + 1)
    except MemoryError:
        return "it needs too much memory: add a LIMIT", (), []
    # such as two statements, or a text cut in half
    except (sqlite3.Error, sqlite3.Warning, UnicodeError, ValueError) as error:
        return not_allowed(refused) if refused else str(error).rstrip("."), (), []


def _is_match(pattern: str, text: str | None) -> bool | None:
    return None if text is None else re.search(pattern, text) is not None


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
