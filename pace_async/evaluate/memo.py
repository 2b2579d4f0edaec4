"""The memo of scores, only for tasks that declare themselves deterministic.

Invariant: an entry equals what another run of the program would give. So texts are told apart by every character: a
program can read its own source and line numbers, and so can an evaluator of the user's. `timeout` and `out_of_memory`
are never kept: both depend on the load of the machine. A failure of the infrastructure is not kept either. A file that
cannot be used never ends a run: the run continues without it, and this is reported once.
"""

import json
import sqlite3
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import anyio
import anyio.to_thread

from pace_async.errors import UsageError
from pace_async.evaluate.base import Evaluation

KEPT = ("ok", "candidate_error", "invalid_score", "output_overflow")
WAL_IS_SAFE = (3, 51, 3)  # before it, several writers could corrupt a database whose log is being reset
BUSY_S = 10.0
IN_MEMORY = 10_000


T = TypeVar("T")


class Key(NamedTuple):
    """`program_hash` is `digest_as_it_is`. `setting` is the environment part: the task's settings, interpreter,
    packages and sandbox tier."""

    task_digest: str
    seed: int
    program_hash: str
    setting: str


class ScoreMemo:
    """Keeps the IN_MEMORY most recently used entries in memory and, where a path is given, all entries in a SQLite file
    that runs share. `say` is called at most once, with the reason why the file is no longer used."""

    def __init__(self, path: Path | None, say: Callable[[str], Awaitable[None]] | None = None) -> None:
        self._path, self._say = path, say
        self._known: OrderedDict[Key, Evaluation] = OrderedDict()
        self._connection: sqlite3.Connection | None = None
        self._lock = anyio.Lock()

    async def open(self) -> None:
        """Raises UsageError if the file is not a database."""
        if self._path is None:
            return
        try:
            self._connection = await anyio.to_thread.run_sync(_connect, self._path)
        except (OSError, sqlite3.Error) as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
                raise UsageError(f"Cannot use {self._path} as score memo (evaluation.memo): {error}.") from None
            await self._go_on_without(error)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(connection.close)

    async def get(self, key: Key) -> Evaluation | None:
        """The known result, marked as memoised, with seconds 0 because nothing was run."""
        if key not in self._known:
            evaluation = await self._ask(_select, key)
            if evaluation is not None:
                self._keep(key, evaluation)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
        return None if known is None else replace(known, memoised=True, seconds=0.0)

    async def put(self, key: Key, evaluation: Evaluation) -> None:
        """Keep a result that another run would repeat. The first entry of a key stays. A mistake of the task's
        evaluator is not kept, so that it is reported each time."""
        if evaluation.outcome not in KEPT or evaluation.evaluator_error or key in self._known:
            return
        self._keep(key, evaluation)
        await self._ask(_insert, key, evaluation)

    async def _ask(self, question: Callable[..., T], *more: object) -> T | None:
        """The file's answer, None if there is no file, or no longer one."""
        async with self._lock:
            if self._connection is None:
                return None
            try:
                return await anyio.to_thread.run_sync(question, self._connection, *more)
            except (sqlite3.Error, ValueError, TypeError) as error:
                await self.close()
                await self._go_on_without(error)
                return None

    async def _go_on_without(self, error: Exception) -> None:
        if self._say is not None:
            await self._say(f"the score memo {self._path} is not used from here on ({error})")

    def _keep(self, key: Key, evaluation: Evaluation) -> None:
        self._known[key] = replace(evaluation, attempts=(), queue_seconds=0.0, curve=None)
        if len(self._known) > IN_MEMORY:
            self._known.popitem(last=False)


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA journal_mode={'WAL' if sqlite3.sqlite_version_info >= WAL_IS_SAFE else 'DELETE'}")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS score_memo (task_digest TEXT NOT NULL, seed INTEGER NOT NULL,"
            " program_hash TEXT NOT NULL, setting TEXT NOT NULL, outcome TEXT NOT NULL, score REAL,"
            " detail TEXT NOT NULL, metrics TEXT NOT NULL, seconds REAL NOT NULL,"
            " PRIMARY KEY (task_digest, seed, program_hash, setting)) WITHOUT ROWID"
        )
        connection.execute(
            "CREATE TABLE IF NOT EXISTS score_memo_feedback (task_digest TEXT NOT NULL, seed INTEGER NOT NULL,"
            " program_hash TEXT NOT NULL, setting TEXT NOT NULL, feedback TEXT NOT NULL,"
            " PRIMARY KEY (task_digest, seed, program_hash, setting)) WITHOUT ROWID"
        )
    except sqlite3.Error:
        connection.close()
        raise
    return connection


_WHERE = "task_digest = ? AND seed = ? AND program_hash = ? AND setting = ?"


def _select(connection: sqlite3.Connection, key: Key) -> Evaluation | None:
    row = connection.execute(
        f"SELECT outcome, score, detail, metrics, seconds FROM score_memo WHERE {_WHERE}",
        key,
    ).fetchone()
    if row is None:
        return None
    outcome, score, detail, metrics, seconds = row
    feedback_row = connection.execute(f"SELECT feedback FROM score_memo_feedback WHERE {_WHERE}", key).fetchone()
    return Evaluation(
        outcome, score, seconds, detail, json.loads(metrics), feedback=feedback_row[0] if feedback_row else ""
    )


def _insert(connection: sqlite3.Connection, key: Key, evaluation: Evaluation) -> None:
    """The feedback first: an entry without it would be taken as one that has none."""
    if evaluation.feedback:
        connection.execute(
            "INSERT OR IGNORE INTO score_memo_feedback VALUES (?, ?, ?, ?, ?)", (*key, evaluation.feedback)
        )
    connection.execute(
        "INSERT OR IGNORE INTO score_memo VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *key,
            evaluation.outcome,
            evaluation.score,
            evaluation.detail,
            json.dumps(dict(evaluation.metrics)),
            evaluation.seconds,
        ),
    )
