"""Runs typed statements, which may only read this database, within a time limit.

Invariant: the database itself enforces this for any statement. A file is read in a process that is killed at the
deadline (`typed_file`). A server uses a read-only transaction, accepts one statement at a time (`typed_server`) and
ends it by its own clock. If the server does not, this side closes the connection some seconds later.
"""

import marshal
import math
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pace_async.errors import UsageError
from pace_async.population.reading import typed_file
from pace_async.population.reading.typed_file import MOST_ROWS
from pace_async.population.reading.typed_server import refuse_unless_reading
from pace_async.population.sqlite import uri_of

AT_ONCE = 4
"""Processes that read for this one at the same time. Further statements wait for one to end."""
MEMORY = 2 << 30
"""Bytes that such a process may hold, with the rows that it has found."""
START_S = 60.0
"""How much longer than its deadline a process may take on a busy machine that it does not get to set its timer."""
SERVER_S = 5.0
"""How much longer than its deadline a server's answer may take."""
_LONGEST_S = 1e6
_TIMED_OUT = "57014"
_slots = threading.BoundedSemaphore(AT_ONCE)


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows of a statement, in order."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


Ask = Callable[[str], Answer]
"""Gives a statement's rows. Raises UsageError, with the reason in lower case, if the statement is refused, takes too
long, or gives more than MOST_ROWS rows."""


@contextmanager
def statements(connection: Connection, timeout_s: float, remedy: str = "") -> Generator[Ask]:
    """Statements that agree with one another. They have `timeout_s` seconds: on a file all of them, on a server each.
    `remedy` ends the sentence of one that takes longer. Raises UsageError if `timeout_s` is not a number of seconds."""
    if not (math.isfinite(timeout_s) and timeout_s > 0):
        raise UsageError(f"--timeout must be a number of seconds above 0, not {timeout_s}.")
    is_file = connection.dialect.name == "sqlite"
    opener = _in_file if is_file else _on_server
    with opener(connection, min(timeout_s, _LONGEST_S), f"it took longer than {timeout_s:g} s{remedy}") as ask:

        def bounded(statement: str) -> Answer:
            answer = ask(statement)
            if not answer.columns and not answer.rows:
                raise UsageError("it is empty: write one that reads, such as `select * from leaderboard limit 5`")
            if len(answer.rows) > MOST_ROWS:
                raise UsageError(f"it gives more than {MOST_ROWS:,} rows: add a LIMIT, or use `pace export`")
            return answer

        yield bounded


@contextmanager
def _in_file(connection: Connection, timeout_s: float, took_longer: str) -> Generator[Ask]:
    command = [sys.executable, "-I", "-S", typed_file.__file__, uri_of(connection), repr(timeout_s), str(MEMORY)]
    with _slots, _process(command) as process:
        assert process.stdin is not None and process.stdout is not None
        requests, replies = process.stdin, process.stdout
        last = threading.Timer(timeout_s + START_S, process.kill)
        last.daemon = True
        last.start()

        def ask(statement: str) -> Answer:
            try:
                marshal.dump(statement, requests)
                requests.flush()
                refused, columns, rows = marshal.load(replies)
            except (EOFError, BrokenPipeError):
                late = process.wait() in (-signal.SIGALRM, -signal.SIGKILL)
                raise UsageError(took_longer if late else "the process that reads the file ended") from None
            if refused:
                raise UsageError(refused)
            return Answer(columns, tuple(rows))

        try:
            yield ask
        finally:
            last.cancel()


@contextmanager
def _process(command: Sequence[str]) -> Generator[subprocess.Popen[bytes]]:
    """A process with pipes, which ends with the block."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


@contextmanager
def _on_server(connection: Connection, timeout_s: float, took_longer: str) -> Generator[Ask]:
    driver: Any = connection.connection.driver_connection
    before = driver.answer_s
    driver.answer_s = timeout_s + SERVER_S
    if not connection.in_transaction():
        connection.begin()

    def ask(statement: str) -> Answer:
        try:
            connection.exec_driver_sql("SET LOCAL standard_conforming_strings = on")
            refuse_unless_reading(connection, statement)
            connection.exec_driver_sql(f"SET LOCAL statement_timeout = {max(1, round(1000 * timeout_s))}")
            result = connection.exec_driver_sql(statement.replace("%", "%%"))  # % is the driver's mark of a parameter
            if not result.returns_rows:
                return Answer((), ())
            return Answer(tuple(result.keys()), tuple(tuple(row) for row in result.fetchmany(MOST_ROWS + 1)))
        except DBAPIError as error:
            late = getattr(error.orig, "sqlstate", "") == _TIMED_OUT or type(error.orig).__name__ == "Unanswered"
            raise UsageError(took_longer if late else str(error.orig).rstrip(".")) from None
        except (UnicodeError, ValueError) as error:  # such as a lone surrogate
            raise UsageError(str(error).rstrip(".")) from None

    try:
        yield ask
    finally:
        driver.answer_s = before
