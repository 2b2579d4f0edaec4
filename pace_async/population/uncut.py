"""Work on a database connection that is never cut short.

A task that is cancelled in the middle of a transaction can leave its connection behind with the write lock held, until
the garbage collector finds it; so each transaction runs in a task of its own that nobody cancels. Whoever waits for it
may be cancelled, the transaction goes to its end. Invariant: nothing is loose; `settle` returns when all of it is done.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Uncut:
    """Runs coroutines to their end. asyncio only, as the database driver is."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, which goes on to its end even if the caller is cancelled while it waits."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def settle(self) -> None:
        """Wait until nothing runs."""
        if self._running:
            await asyncio.wait(self._running)
