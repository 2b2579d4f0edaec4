"""A fair lock with two modes, together (shared) and alone (exclusive): an evaluation can get the machine to itself.

Invariant: an exclusive holder is the only holder, and requests are granted in order of arrival. So later requests never
delay an exclusive one, and it delays no earlier one. A holder must not ask again before it has left: that would
deadlock.
"""

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio


@dataclass(eq=False, slots=True)
class _Waiting:
    alone: bool
    admitted: anyio.Event = field(default_factory=anyio.Event)


class Turns:
    """The lock of one evaluator. Everything that it runs or scores holds it in one of the two modes."""

    def __init__(self) -> None:
        self._inside = 0
        self._held = False
        self._waiting: deque[_Waiting] = deque()

    @asynccontextmanager
    async def together(self) -> AsyncGenerator[None]:
        """Shared: with any number of other shared holders."""
        await self._enter(_Waiting(alone=False))
        try:
            yield
        finally:
            self._leave()

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """Exclusive: with no other holder."""
        await self._enter(_Waiting(alone=True))
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, waiting: _Waiting) -> None:
        self._waiting.append(waiting)
        self._admit()
        try:
            await waiting.admitted.wait()
        except BaseException:
            if waiting.admitted.is_set():
                self._leave()
            else:
                self._waiting.remove(waiting)
                self._admit()
            raise

    def _leave(self) -> None:
        self._inside -= 1
        self._held = False
        self._admit()

    def _admit(self) -> None:
        while self._waiting and not self._held and not (self._waiting[0].alone and self._inside):
            first = self._waiting.popleft()
            self._inside += 1
            self._held = first.alone
            first.admitted.set()
