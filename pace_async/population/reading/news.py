"""Tells of commits to one population.

A server notifies (`postgres.Listening`). A SQLite file tells when it is asked, by its data version, and is asked every
LOOK_S seconds while somebody waits.

Invariant: one waits for all, and nobody misses a commit: each asks again before and after it waits.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Lock

import anyio
import anyio.to_thread
from sqlalchemy import Connection, Engine

from pace_async.population import postgres, sqlite
from pace_async.population.connect import Place

LOOK_S = 0.1


class News:
    """Several threads may ask for `mark`. Those who wait belong to one event loop."""

    def __init__(self, place: Place, reader: Engine) -> None:
        self._place, self._reader = place, reader
        self._asking, self._waiting = Lock(), anyio.Lock()
        self._held: Connection | None = None
        self._times_opened = 0
        self._listening = postgres.Listening(reader)

    def mark(self) -> str:
        """A text that differs after every commit. Raises DatabaseError."""
        if not isinstance(self._place, Path):
            with self._reader.connect() as connection:
                return postgres.mark(connection)
        with self._asking:
            if self._held is None or sqlite.is_outdated(self._held):
                self._let_go()
                self._held, self._times_opened = self._reader.connect(), self._times_opened + 1
            return f"{self._times_opened}:{sqlite.data_version(self._held)}"

    async def wait(self, mark: str) -> None:
        """Wait until the mark is another one. Raises DatabaseError."""
        if await anyio.to_thread.run_sync(self.mark) != mark:
            return
        async with self._waiting:
            while await anyio.to_thread.run_sync(self.mark) == mark:
                await (anyio.sleep(LOOK_S) if isinstance(self._place, Path) else self._listening.wait())

    def close(self) -> None:
        """Close the connections."""
        self._let_go()
        self._listening.close()

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None


async def first_of(*waits: Callable[[], Awaitable[object]]) -> None:
    """Wait until one of them returns. Raises the first error, as it is and not in a group."""
    failed: list[Exception] = []
    async with anyio.create_task_group() as tasks:

        async def wait(awaited: Callable[[], Awaitable[object]]) -> None:
            try:
                await awaited()
            except Exception as error:
                failed.append(error)
            tasks.cancel_scope.cancel()

        for awaited in waits:
            tasks.start_soon(wait, awaited)
    if failed:
        raise failed[0]
