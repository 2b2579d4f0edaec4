"""The one connection that writes, in a thread of its own.

A transaction crosses into the thread once, whole, and its outcome comes back once: crossing for every statement, as an
asynchronous driver does, cost more than the statements. What is asked for while the thread writes is written next, all
of it in one transaction with one sync to the disk (group commit), so a hundred search threads cost hardly more syncs
than one. If one of them is refused, none of that transaction stands and each is written on its own, in order: nobody
fails for a neighbour's fault.

Invariant: a caller is answered after its work is on the disk, or after nothing of it is; a caller that is cancelled
leaves its work to go to its end. What is asked for is written in that order. All but `_written` runs on the event loop.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DatabaseError, DataError, IntegrityError, ProgrammingError

T = TypeVar("T")
Work = Callable[[Connection], Any]

REFUSALS = IntegrityError, ProgrammingError, DataError
"""What the database says of one statement; any other of its errors is about the database itself."""

MOST = 256
"""Works in one transaction."""


@dataclass(frozen=True, slots=True)
class _Raised:
    error: Exception


class Writer:
    """Owns `engine`, of which it opens one connection. asyncio only. `close` it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pace-population")
        self._connection: Connection | None = None
        self._asked: deque[tuple[Work, asyncio.Future[Any]]] = deque()
        self._writing = False
        self._running: set[asyncio.Future[Any]] = set()

    async def run(self, work: Callable[[Connection], T]) -> T:
        """The result of `work`, called in a transaction that is on the disk when this returns. May be called twice, of
        which the first is then undone. Raises what it raised, or what the database did; nothing was written then."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._running.add(answer)
        answer.add_done_callback(self._running.discard)
        self._asked.append((work, answer))
        if not self._writing:
            self._begin()
        return await asyncio.shield(answer)

    async def close(self) -> None:
        """Finish what was asked for, then let go of the database."""
        if self._running:
            await asyncio.wait(self._running)
        await asyncio.get_running_loop().run_in_executor(self._thread, self._let_go)
        self._thread.shutdown()

    def _begin(self) -> None:
        taken = [self._asked.popleft() for _ in range(min(MOST, len(self._asked)))]
        self._writing = bool(taken)
        if taken:
            written = asyncio.get_running_loop().run_in_executor(
                self._thread, self._written, [work for work, _ in taken]
            )
            written.add_done_callback(lambda done: self._answer([answer for _, answer in taken], done.result()))

    def _answer(self, answers: Sequence[asyncio.Future[Any]], outcomes: Sequence[Any]) -> None:
        for answer, outcome in zip(answers, outcomes, strict=True):
            if isinstance(outcome, _Raised):
                answer.set_exception(outcome.error)
            else:
                answer.set_result(outcome)
        self._begin()

    def _written(self, works: Sequence[Work]) -> list[Any]:
        try:
            connection = self._open()
            with connection.begin():
                return [work(connection) for work in works]
        except Exception as error:
            if isinstance(error, DatabaseError) and not isinstance(error, REFUSALS):
                self._let_go()
                return [_Raised(error)] * len(works)
            if len(works) == 1:
                return [_Raised(error)]
        return [outcome for work in works for outcome in self._written([work])]

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._engine.dispose()
