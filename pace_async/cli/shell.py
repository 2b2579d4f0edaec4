"""A small SQL prompt for machines without sqlite3's own: statements end with a semicolon.

Read-only unless opened for writing. The database enforces this (`typed_file`), not the prompt. Not an editor:
sqlite3 is better.
"""

import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from urllib.parse import quote

from pace_async.cli.output import print_table, tell
from pace_async.observe.columns import on_one_line
from pace_async.population.reading.typed_file import not_allowed, only_reading
from pace_async.population.sqlite import reading_uri

HELP = """\
SELECT ... ;      ask; a statement ends with a semicolon
.tables           tables and views
.schema NAME      how one of them was made
.quit             leave (so does Ctrl-D)"""


def built_in(path: Path, *, write: bool) -> None:
    """Read statements from standard input until it ends."""
    uri = f"file:{quote(str(path))}?mode=rw" if write else reading_uri(path)
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=60)
    if write:
        connection.execute("PRAGMA foreign_keys=ON")
    allowed = nullcontext(list[str]()) if write else only_reading(connection)
    with closing(connection), allowed as refused:
        for statement in _statements(input if sys.stdin.isatty() else _piped):
            if statement in (".quit", ".exit"):
                return
            try:
                _answer(connection, statement)
            except sqlite3.Error as error:
                reason = f"{not_allowed(refused)} (readonly: --write allows changes)" if refused else error
                refused.clear()
                tell(f"error: {on_one_line(reason)}", err=True)


def _answer(connection: sqlite3.Connection, statement: str) -> None:
    if statement == ".help":
        tell(HELP)
    elif statement == ".tables":
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")
        tell("\n".join(row[0] for row in rows))
    elif statement.startswith(".schema"):
        name = statement.removeprefix(".schema").strip()
        rows = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,))
        tell("\n".join(row[0] for row in rows) or f"there is no {name or 'name'}; .tables lists the tables and views")
    elif statement.startswith("."):
        tell(HELP)
    else:
        cursor = connection.execute(statement)
        if cursor.description is not None:
            columns = [column[0] for column in cursor.description]
            print_table([dict(zip(columns, row, strict=True)) for row in cursor])


def _statements(read: Callable[[str], str]) -> Iterator[str]:
    """Whole statements, or one line that begins with a dot."""
    pending = ""
    while True:
        try:
            line = read("pace> " if not pending else "  ..> ")
        except (EOFError, KeyboardInterrupt):
            if pending.strip():
                yield pending
            return
        if not pending and line.strip().startswith("."):
            yield line.strip()
            continue
        for piece in re.findall(r"[^;]*;|[^;]+", line + "\n"):
            pending += piece
            if not pending.strip():
                pending = ""
            elif piece.endswith(";") and sqlite3.complete_statement(pending):
                yield pending.strip()
                pending = ""


def _piped(prompt: str) -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")
