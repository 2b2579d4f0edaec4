"""Populations for tests: each passes its facts on to a real one, and watches or ends the run at a commit."""

from typing import TypeVar

import anyio

from pace_async.events import Fact
from pace_async.population.base import Question
from pace_async.population.memory import MemoryPopulation

T = TypeVar("T")


class Interrupting:
    """A population that cancels the run after its `last`-th commit, or just before it: then the stage has ended, its
    files are written, and no row says so. Nothing is committed afterwards."""

    def __init__(self, population: MemoryPopulation, scope: anyio.CancelScope, last: int, *, before: bool) -> None:
        self._population, self._scope, self._last, self._before = population, scope, last, before
        self.commits = 0

    async def commit(self, *facts: Fact) -> None:
        if self._before and self.commits + 1 == self._last:
            self._scope.cancel()
        if self._scope.cancel_called:
            await anyio.lowlevel.checkpoint()
        await self._population.commit(*facts)
        self.commits += 1
        if self.commits == self._last:
            self._scope.cancel()
            await anyio.lowlevel.checkpoint()

    async def read(self, question: Question[T]) -> T:
        return await self._population.read(question)
