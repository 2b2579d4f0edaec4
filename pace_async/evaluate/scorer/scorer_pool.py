"""The scorers of one evaluator: a few processes, so that an output that takes long does not keep all others waiting.

Invariant: a candidate pays for what its outputs make a scorer do (run over a bound, crash) only if they do it twice,
the second time to a fresh scorer while nothing else runs. Any other failure of a scorer is the infrastructure's.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

import anyio

from pace_async.evaluate.scorer.scorer_client import OverBound, Scored, Scorer
from pace_async.evaluate.turns import Turns
from pace_async.task import FULL

PATIENCE_S = 1.0


class Scorers:
    """At most `most` processes, made by `make`: one from the start, the next when somebody has waited for a second,
    because each holds the evaluator's instances. Use as an async context manager."""

    def __init__(self, make: Callable[[], Scorer], most: int, turns: Turns) -> None:
        self._make, self._most, self._turns = make, most, turns
        self._idle: list[Scorer] = []
        self._free = anyio.Semaphore(0)
        self._started = 0
        self._instances: dict[tuple[int, str], list[str]] = {}
        self._stack = AsyncExitStack()
        self.timed = False

    async def __aenter__(self) -> Self:
        first = await self._further()
        self.timed = first.timed
        self._give_back(first)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def instances(self, seed: int, stage: str = FULL) -> list[str]:
        """See `Scorer.instances`."""
        if (seed, stage) not in self._instances:
            async with self._one() as scorer:
                self._instances[seed, stage] = await scorer.instances(seed, stage)
        return self._instances[seed, stage]

    async def score(
        self,
        seed: int,
        outputs: Sequence[bytes],
        seconds: Sequence[float] = (),
        overhead: float = 0.0,
        stage: str = FULL,
    ) -> Scored:
        """See `Scorer.score`. Outputs that exceed a bound twice are an invalid score, and no OverBound is raised. Waits
        for a scorer."""
        try:
            async with self._one() as scorer, self._turns.together():
                return await scorer.score(seed, outputs, seconds, overhead, stage)
        except OverBound:
            pass  # perhaps the machine's doing, or that of outputs scored before
        async with self._turns.alone(), self._make() as fresh:
            await fresh.instances(seed, stage)
            try:
                return await fresh.score(seed, outputs, seconds, overhead, stage)
            except OverBound as again:
                said = f"scoring its outputs {again.detail}"
                return Scored(None, {}, said, said)

    async def _further(self) -> Scorer:
        self._started += 1
        try:
            return await self._stack.enter_async_context(self._make())
        except BaseException:
            self._started -= 1
            raise

    @asynccontextmanager
    async def _one(self) -> AsyncGenerator[Scorer]:
        scorer = await self._take()
        try:
            yield scorer
        finally:
            self._give_back(scorer)

    async def _take(self) -> Scorer:
        if self._started < self._most:
            with anyio.move_on_after(PATIENCE_S):
                await self._free.acquire()
                return self._idle.pop()
            if self._started < self._most:
                return await self._further()
        await self._free.acquire()
        return self._idle.pop()

    def _give_back(self, scorer: Scorer) -> None:
        self._idle.append(scorer)
        self._free.release()
