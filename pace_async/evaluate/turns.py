"""Many together, or one alone: how an evaluation gets the machine to itself.

Invariant: whoever is alone is the only one inside, and all are admitted in the order in which they came. So one who
wants to be alone is not kept waiting by those who come later, and keeps none of those waiting who came before. No
deadlock: whoever is inside must not ask again before it has left.
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
    """Of one evaluator: everything that it runs or scores is inside, in one of the two ways."""

    def __init__(self) -> None:
        self._inside = 0
        self._held = False
        self._waiting: deque[_Waiting] = deque()

    @asynccontextmanager
    async def together(self) -> AsyncGenerator[None]:
        """With any number of others, but for one who is alone."""
        await self._enter(_Waiting(alone=False))
        try:
            yield
        finally:
            self._leave()

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """With nobody else."""
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
