"""Runs work on a database connection without interruption.

A task cancelled during a transaction can leave its connection with the write lock held until garbage collection. So
each transaction runs in its own task, which is never cancelled. The waiting caller may be cancelled, and the
transaction still completes. Invariant: no task is lost. `settle` returns when all are done.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Uncut:
    """Runs coroutines to their end. Works only on asyncio, like the database driver."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, which completes even if the waiting caller is cancelled."""
        return await asyncio.shield(self.begin(work))

    def begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Begin `work`, for which nobody need wait."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._discard)
        return task

    def _discard(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # mark it as retrieved, or asyncio logs it where nobody waits

    async def settle(self) -> None:
        """Wait until all work is done."""
        if self._running:
            await asyncio.wait(self._running)
