"""The one connection that writes, in a thread of its own.

A transaction crosses into the thread once, whole, and its outcome comes back once: crossing for every statement, as an
asynchronous driver does, cost more than the statements. What is asked for while the thread writes is written next, all
of it in one transaction with one sync to the disk (group commit), so a hundred search threads cost hardly more syncs
than one. If one of them is refused, none of that transaction stands and each is written on its own, in order: nobody
fails for a neighbour's fault.

While the database is locked, full or away, what is asked for waits, in its order, and is tried again; when that has
lasted longer than `patience_s`, all that waits fails.

Invariant: a caller is answered after its work is on the disk, or after nothing of it is; a caller that is cancelled
leaves its work to go to its end. What is asked for is written in that order. What runs in the thread says so; the rest
runs on the event loop.
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
from pace_async.population.outage import PATIENCE_S, Outage, Recovered, Tell, nobody

T = TypeVar("T")
Work = Callable[[Connection], Any]
_Asked = tuple[Work, asyncio.Future[Any]]

REFUSALS = IntegrityError, ProgrammingError, DataError
"""What the database says of one statement; any other of its errors is about the database itself."""

MOST = 256
"""Works in one transaction."""

RETRY_S = 1.0
"""Between two tries to reach a database; each may wait for a lock by itself."""


@dataclass(frozen=True, slots=True)
class _Raised:
    error: BaseException


@dataclass(frozen=True, slots=True)
class _OutOfReach:
    error: Exception


@dataclass(frozen=True, slots=True)
class _InDoubt:
    """A transaction was to be committed, and the connection broke: it may have been made."""

    number: str
    run_id: int | None
    outcomes: Sequence[Any]


class _Lost(Exception):
    """The run that this process drives is held by another session, perhaps its own that the server has yet to miss."""

    def __init__(self, held: RunLocked) -> None:
        super().__init__(str(held))
        self.held = held


def _tell(answer: asyncio.Future[Any], outcome: Any) -> None:
    """Whoever asked may be gone."""
    if answer.done():
        return
    if isinstance(outcome, _Raised):
        answer.set_exception(outcome.error)
        answer.exception()  # or it is complained of where nobody looks any more
    else:
        answer.set_result(outcome)


class Writer:
    """Owns `engine`, of which it opens one connection. asyncio only. `close` it. `tell` is called when the database is
    out of reach and when it is back; `hold`, once set, on every new connection before anything is written on it.
    `run_id` is the run that is written, once it has a row."""

    def __init__(self, engine: Engine, patience_s: float = PATIENCE_S, tell: Tell = nobody) -> None:
        self._engine = engine
        self.patience_s, self.tell = patience_s, tell
        self.outage: Outage | None = None
        self._away_since = 0.0
        self.hold: Callable[[Connection], None] | None = None
        self.run_id: int | None = None
        self._in_doubt: _InDoubt | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pace-population")
        self._connection: Connection | None = None
        self._asked: deque[_Asked] = deque()
        self._at_rest = asyncio.Event()
        self._at_rest.set()

    async def run(self, work: Callable[[Connection], T]) -> T:
        """The result of `work`, called in a transaction that is on the disk when this returns. May be called twice, of
        which the first is then undone. Raises what it raised, or what the database did; nothing was written then."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._asked.append((work, answer))
        if self._at_rest.is_set():
            self._begin()
        return await answer

    async def close(self) -> None:
        """Finish what was asked for, but wait for no database that is out of reach; then let go of it."""
        self.patience_s = 0.0
        await self._at_rest.wait()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._let_go)
        self._thread.shutdown()

    def _begin(self) -> None:
        taken = [self._asked.popleft() for _ in range(min(MOST, len(self._asked)))]
        if taken:
            self._at_rest.clear()
            self._thread.submit(self._write_and_tell, taken, asyncio.get_running_loop())
        else:
            self._at_rest.set()

    def _write_and_tell(self, taken: Sequence[_Asked], loop: asyncio.AbstractEventLoop) -> None:
        """In the thread. Tells the loop itself: the futures of an executor take it two more turns, and a turn that
        begins from rest costs as much as a statement."""
        try:
            outcomes = self._written([work for work, _ in taken])
        except BaseException as error:  # a fault of ours: nobody may wait for ever
            outcomes = [_Raised(error)] * len(taken)
        loop.call_soon_threadsafe(self._ended, taken, outcomes)

    def _ended(self, taken: Sequence[_Asked], outcomes: Sequence[Any]) -> None:
        """Answer those whose outcome is known; the rest goes first in the next try."""
        waiting = [each for each, outcome in zip(taken, outcomes, strict=True) if isinstance(outcome, _OutOfReach)]
        if len(waiting) < len(taken) and self.outage is not None:
            over, self.outage = self.outage, None
            self.tell(Recovered(over.reason, time.monotonic() - self._away_since))
        for (_, answer), outcome in zip(taken, outcomes, strict=True):
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

    def _written(self, works: Sequence[Work]) -> list[Any]:
        """In the thread, as all that it calls."""
        try:
            made = self._made_after_all()
            if made:
                return [*made, *(self._written(works[len(made) :]) if len(works) > len(made) else ())]
            connection = self._open()
            with connection.begin():
                run_id = self.run_id
                number = number_of(connection, run_id)
                outcomes = [work(connection) for work in works]
                self._in_doubt = None if number is None else _InDoubt(number, run_id, outcomes)
            self._in_doubt = None
            return outcomes
        except Exception as error:
            if isinstance(error, _Lost):
                return [_OutOfReach(error.held)] * len(works)
            if isinstance(error, DBAPIError) and not isinstance(error, REFUSALS):
                self._let_go()
                return [_OutOfReach(error) if will_pass(error) else _Raised(error)] * len(works)
            if len(works) == 1:
                return [_Raised(error)]
        return self._written_one_by_one(works)

    def _written_one_by_one(self, works: Sequence[Work]) -> list[Any]:
        outcomes: list[Any] = []
        for work in works:
            outcomes += self._written([work])
            if isinstance(outcomes[-1], _OutOfReach):
                break
        return outcomes + outcomes[-1:] * (len(works) - len(outcomes))

    def _made_after_all(self) -> Sequence[Any]:
        """The outcomes of the transaction that was in doubt, if it was made."""
        doubt = self._in_doubt
        if doubt is None:
            return ()
        with (connection := self._open()).begin():
            made = was_made(connection, doubt.number, doubt.run_id)
        self._in_doubt = None
        return doubt.outcomes if made else ()

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
            try:
                if self.hold is not None:
                    with self._connection.begin():
                        self.hold(self._connection)
            except RunLocked as held:
                self._let_go()
                raise _Lost(held) from held
        return self._connection

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._engine.dispose()
