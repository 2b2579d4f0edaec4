"""Populations for tests: each passes its facts on to a real one, and watches or ends the run at a commit."""

from dataclasses import dataclass, field
from typing import TypeVar

import anyio
import anyio.lowlevel

from pace_async.events import Fact, FaultSeen
from pace_async.population.base import Population, Question
from pace_async.population.memory import MemoryPopulation
from pace_async.population.reading.questions import rows_of

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


@dataclass
class Counting:
    """A population that counts what is committed."""

    inner: Population
    begun: int = 0
    ended: int = 0

    async def commit(self, *facts: Fact) -> None:
        self.begun += 1
        await self.inner.commit(*facts)
        self.ended += 1

    async def read(self, question: Question[T]) -> T:
        return await self.inner.read(question)

    async def quiet(self) -> None:
        """Let what is on its way be written, and see that nothing follows, however often the loop turns."""
        while self.ended < self.begun:
            await anyio.lowlevel.checkpoint()
        before = self.begun
        for _ in range(2000):
            await anyio.lowlevel.checkpoint()
        assert self.begun == before


@dataclass
class Told:
    """A population which lets a test wait for committed faults."""

    inner: Population
    _kinds: list[str] = field(default_factory=list[str])
    _news: anyio.Event = field(default_factory=anyio.Event)

    async def commit(self, *facts: Fact) -> None:
        await self.inner.commit(*facts)
        self._kinds += [fact.kind for fact in facts if isinstance(fact, FaultSeen)]
        news, self._news = self._news, anyio.Event()
        news.set()

    async def read(self, question: Question[T]) -> T:
        return await self.inner.read(question)

    async def faults(self, count: int) -> list[str]:
        """The kinds of the faults so far, once there are so many."""
        while len(self._kinds) < count:
            await self._news.wait()
        rows = await self.inner.read(lambda connection: rows_of(connection, "select kind from faults order by number"))
        assert [row["kind"] for row in rows] == self._kinds
        return self._kinds
