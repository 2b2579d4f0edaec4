"""The only writing connection, in its own thread.

A whole transaction goes to the thread once, and its outcome comes back once. An asynchronous driver crosses threads for
every statement, which costs more than the statements. Requests that arrive while the thread writes are written next in
one transaction with one sync to the disk (group commit), so a hundred search threads cost hardly more syncs than one.
If one request is refused, the transaction is rolled back and each request is written on its own, in order. One caller's
error never fails another's write.

While the database is locked, full or unreachable, requests wait in their order and are tried again. After `patience_s`
all waiting requests fail.

Invariant: a caller is answered once its work is completely on the disk, or once none of it is. The work of a cancelled
caller still completes. Requests are written in their order. Functions that run in the thread state it. All others run
on the event loop.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError

from pace_async.errors import RunLocked
from pace_async.population.connect import in_words, number_of, was_made, will_pass
from pace_async.population.writing.outage import PATIENCE_S, Outage, Recovered, Tell, ignore_news

T = TypeVar("T")
Write = Callable[[Connection], Any]
_Asked = tuple[Write, asyncio.Future[Any]]

REFUSALS = IntegrityError, ProgrammingError, DataError
"""Errors of a single statement. All other database errors concern the database itself."""

MOST = 256
"""The most requests in one transaction."""

RETRY_S = 1.0
"""Between two tries to reach a database. Each try may also wait for a lock."""


@dataclass(frozen=True, slots=True)
class _Raised:
    error: BaseException


@dataclass(frozen=True, slots=True)
class _OutOfReach:
    error: Exception


@dataclass(frozen=True, slots=True)
class _InDoubt:
    """The connection broke during a commit: the transaction may have been committed."""

    number: str
    run_id: int | None
    outcomes: Sequence[Any]


class _Lost(Exception):
    """Another session holds this process's run, perhaps its own old one, whose end the server has not yet detected."""

    def __init__(self, error: RunLocked) -> None:
        super().__init__(str(error))
        self.held = error


def _tell(answer: asyncio.Future[Any], outcome: Any) -> None:
    """Answer a caller. A cancelled one is skipped."""
    if answer.done():
        return
    if isinstance(outcome, _Raised):
        answer.set_exception(outcome.error)
        answer.exception()  # mark it as retrieved, or asyncio logs it for a caller that is gone
    else:
        answer.set_result(outcome)


class Writer:
    """Owns `engine` and opens one connection of it. Works only on asyncio. Must be closed. `tell` is called when the
    database becomes unreachable and when it is back. `hold`, once set, is called on every new connection before
    anything is written on it. `run_id` is the run that is written, once it has a row. `guard` is
    called in the thread before every transaction, and what it raises refuses the requests."""

    def __init__(self, engine: Engine, patience_s: float = PATIENCE_S, tell: Tell = ignore_news) -> None:
        self._engine = engine
        self.patience_s, self.tell = patience_s, tell
        self.outage: Outage | None = None
        self._away_since = 0.0
        self.hold: Callable[[Connection], None] | None = None
        self.run_id: int | None = None
        self.guard: Callable[[], None] = lambda: None
        self._in_doubt: _InDoubt | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pace-population")
        self._connection: Connection | None = None
        self._asked: deque[_Asked] = deque()
        self._at_rest = asyncio.Event()
        self._at_rest.set()

    async def run(self, work: Callable[[Connection], T]) -> T:
        """The result of `work`, called in a transaction that is on the disk when this returns. `work` may be called
        twice, and the first call is then rolled back. Raises the error of `work` or of the database, and then nothing
        was written."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._asked.append((work, answer))
        if self._at_rest.is_set():
            self._begin()
        return await answer

    async def close(self) -> None:
        """Finish the waiting requests, without waiting for an unreachable database, and close the connection."""
        self.patience_s = 0.0
        await self._at_rest.wait()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._let_go)
        self._thread.shutdown()

    def _begin(self) -> None:
        requests = [self._asked.popleft() for _ in range(min(MOST, len(self._asked)))]
        if requests:
            self._at_rest.clear()
            self._thread.submit(self._write_and_tell, requests, asyncio.get_running_loop())
        else:
            self._at_rest.set()

    def _write_and_tell(self, requests: Sequence[_Asked], loop: asyncio.AbstractEventLoop) -> None:
        """In the thread. Tells the loop itself: the futures of an executor take it two more turns, and a turn that
        begins from rest costs as much as a statement."""
        try:
            outcomes = self._write_all([write for write, _ in requests])
        except BaseException as error:  # a bug of ours: no caller may wait forever
            outcomes = [_Raised(error)] * len(requests)
        loop.call_soon_threadsafe(self._answer_requests, requests, outcomes)

    def _answer_requests(self, requests: Sequence[_Asked], outcomes: Sequence[Any]) -> None:
        """Answer the requests with a known outcome. The rest goes first in the next try."""
        waiting = [each for each, outcome in zip(requests, outcomes, strict=True) if isinstance(outcome, _OutOfReach)]
        if len(waiting) < len(requests) and self.outage is not None:
            over, self.outage = self.outage, None
            self.tell(Recovered(over.reason, time.monotonic() - self._away_since))
        for (_, answer), outcome in zip(requests, outcomes, strict=True):
            if not isinstance(outcome, _OutOfReach):
                _tell(answer, outcome)
        if waiting:
            self._asked.extendleft(reversed(waiting))
            self._wait(outcomes[-1].error)
        else:
            self._begin()

    def _wait(self, error: Exception) -> None:
        if self.outage is None:
            self.outage = Outage(in_words(error) if isinstance(error, DBAPIError) else str(error), time.time())
            self._away_since = time.monotonic()
            self.tell(self.outage)
        if time.monotonic() - self._away_since >= self.patience_s:
            lost = list(self._asked)
            self._asked.clear()
            for _, answer in lost:
                _tell(answer, _Raised(error))
            self._at_rest.set()
        else:
            asyncio.get_running_loop().call_later(RETRY_S, self._begin)

    def _write_all(self, writes: Sequence[Write]) -> list[Any]:
        """Runs in the thread, with all that it calls."""
        try:
            self.guard()
            earlier_outcomes = self._made_after_all()
            if earlier_outcomes:
                return [
                    *earlier_outcomes,
                    *(self._write_all(writes[len(earlier_outcomes) :]) if len(writes) > len(earlier_outcomes) else ()),
                ]
            connection = self._open()
            with connection.begin():
                run_id = self.run_id
                number = number_of(connection, run_id)
                outcomes = [write(connection) for write in writes]
                self._in_doubt = None if number is None else _InDoubt(number, run_id, outcomes)
            self._in_doubt = None
            return outcomes
        except Exception as error:
            if isinstance(error, _Lost):
                return [_OutOfReach(error.held)] * len(writes)
            if isinstance(error, DBAPIError) and not isinstance(error, REFUSALS):
                self._let_go()
                return [_OutOfReach(error) if will_pass(error) else _Raised(error)] * len(writes)
            if len(writes) == 1:
                return [_Raised(error)]
        return self._written_one_by_one(writes)

    def _written_one_by_one(self, writes: Sequence[Write]) -> list[Any]:
        outcomes: list[Any] = []
        for write in writes:
            outcomes += self._write_all([write])
            if isinstance(outcomes[-1], _OutOfReach):
                break
        return outcomes + outcomes[-1:] * (len(writes) - len(outcomes))

    def _made_after_all(self) -> Sequence[Any]:
        """The outcomes of the transaction in doubt, if it was committed."""
        doubt = self._in_doubt
        if doubt is None:
            return ()
        with (connection := self._open()).begin():
            is_committed = was_made(connection, doubt.number, doubt.run_id)
        self._in_doubt = None
        return doubt.outcomes if is_committed else ()

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
            try:
                if self.hold is not None:
                    with self._connection.begin():
                        self.hold(self._connection)
            except RunLocked as error:
                self._let_go()
                raise _Lost(error) from error
        return self._connection

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._engine.dispose()
