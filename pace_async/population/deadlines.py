"""PostgreSQL connections with a deadline on every wait for the server.

Invariant: a wait beyond its deadline raises `Unanswered`, an OperationalError, and closes the connection. It is then
unknown whether the last statement was executed. A working server applies its own limits first. This deadline is for a
server, or a network, that accepts bytes and returns none, which keep-alive packets do not detect. Imports the driver,
which is optional: import this module only before connecting.
"""

import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import psycopg
from psycopg.adapt import Loader


class Unanswered(psycopg.OperationalError):
    """The server did not answer in time."""


class _PlainNumber(Loader):
    """Numbers of the type `numeric` as int or float: averages, and sums of large whole numbers. SQLite gives these too,
    and JSON has no decimal numbers."""

    def load(self, data: Any) -> int | float:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


psycopg.adapters.register_loader("numeric", _PlainNumber)


class _Timed(psycopg.Connection[Any]):
    answer_s = 0.0

    def wait(self, gen: Any, *arguments: Any, **keywords: Any) -> Any:
        try:
            return super().wait(_timed(gen, self.answer_s), *arguments, **keywords)
        except Unanswered:
            self.pgconn.finish()
            raise


class _AsyncTimed(psycopg.AsyncConnection[Any]):
    answer_s = 0.0

    async def wait(self, gen: Any, *arguments: Any, **keywords: Any) -> Any:
        try:
            return await super().wait(_timed(gen, self.answer_s), *arguments, **keywords)
        except Unanswered:
            self.pgconn.finish()
            raise


def connect_by(answer_s: float | None) -> Callable[..., psycopg.Connection[Any]]:
    """A function that makes connections whose waits last at most so many seconds. None: the driver's default."""
    return psycopg.connect if answer_s is None else type("Timed", (_Timed,), {"answer_s": answer_s}).connect


def connect_async_by(answer_s: float) -> Callable[..., Awaitable[psycopg.AsyncConnection[Any]]]:
    """The same beside an event loop."""
    return type("AsyncTimed", (_AsyncTimed,), {"answer_s": answer_s}).connect


def _timed(gen: Generator[Any, Any, Any], answer_s: float) -> Generator[Any, Any, Any]:
    """The driver's generator with a deadline. It yields what it waits for, and receives 0 if nothing came for a
    moment."""
    try:
        wait = next(gen)
        until = time.monotonic() + answer_s
        while True:
            ready = yield wait
            if ready:
                until = time.monotonic() + answer_s
            elif time.monotonic() >= until:
                raise Unanswered(f"no answer for {answer_s:g} s")
            wait = gen.send(ready)
    except StopIteration as done:
        return done.value
