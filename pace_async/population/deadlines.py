"""PostgreSQL connections of which every wait for the server has a deadline.

Invariant: a wait that is not answered in time raises `Unanswered`, an OperationalError, and its connection is closed:
of what it was asked last nobody knows whether it was done. The server's own limits come first where it lives; this one
is for a server, or a way to it, that takes bytes and gives none, which no keep-alive packet notices. Imports the
driver, which is optional: import this where a connection is about to be made.
"""

import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import psycopg


class Unanswered(psycopg.OperationalError):
    """The server did not answer in time."""


class _Timed(psycopg.Connection[Any]):
    answer_s = 0.0

    def wait(self, gen: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return super().wait(_timed(gen, self.answer_s), *arguments, **named)
        except Unanswered:
            self.pgconn.finish()
            raise


class _AsyncTimed(psycopg.AsyncConnection[Any]):
    answer_s = 0.0

    async def wait(self, gen: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return await super().wait(_timed(gen, self.answer_s), *arguments, **named)
        except Unanswered:
            self.pgconn.finish()
            raise


def connect_by(answer_s: float | None) -> Callable[..., psycopg.Connection[Any]]:
    """What makes connections of which no wait is longer, in seconds; None: as the driver makes them."""
    return psycopg.connect if answer_s is None else type("Timed", (_Timed,), {"answer_s": answer_s}).connect


def connect_async_by(answer_s: float) -> Callable[..., Awaitable[psycopg.AsyncConnection[Any]]]:
    """The same beside an event loop."""
    return type("AsyncTimed", (_AsyncTimed,), {"answer_s": answer_s}).connect


def _timed(gen: Generator[Any, Any, Any], answer_s: float) -> Generator[Any, Any, Any]:
    """The driver's generator, which yields what it waits for and is sent 0 where nothing came for a moment."""
    try:
        wanted = next(gen)
        until = time.monotonic() + answer_s
        while True:
            ready = yield wanted
            if ready:
                until = time.monotonic() + answer_s
            elif time.monotonic() >= until:
                raise Unanswered(f"no answer for {answer_s:g} s")
            wanted = gen.send(ready)
    except StopIteration as done:
        return done.value
