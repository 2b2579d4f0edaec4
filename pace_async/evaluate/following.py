"""Values of a program that still runs, from the task's own scorer, so that a hopeless evaluation ends early.

The scorer, outside the sandbox, scores the outputs that have come so far. The program does not wait for that, so no
time that it can measure depends on the hidden scorer, and its own time is the same as without.

Invariants: the number of instances alone decides after which outputs there is a value. The values are taken in their
order, those of the outputs that came before the program's end too, until one falls below the bar. So neither the speed
of the program nor that of the scorer decides whether it is stopped, but only how many seconds the stop saves.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Self

import anyio

from pace_async.evaluate.pruning import Reports

MOST_VALUES = 20
"""Values of one evaluation at most: for each the scorer gets all outputs so far."""

Value = Callable[[Sequence[bytes], Sequence[float], Sequence[float]], Awaitable[float | None]]
"""The score of the first outputs, from them, the seconds of their calls, and those of each echo. None if they have
none."""


def valued_steps(instances: int) -> range:
    """The numbers of outputs after which there is a value. Not after the last one: that value is the score."""
    every = max(1, -(-instances // MOST_VALUES))
    return range(every, instances, every)


class Follower:
    """Follows one run of a program, whose conversation calls `heard` after each output. `missed` is set when a value
    falls below the bar. After an output without a value there are no further ones."""

    def __init__(self, reports: Reports, value: Value, instances: int) -> None:
        self.reports, self.missed = reports, anyio.Event()
        self._value, self._steps = value, valued_steps(instances)
        self._outputs: Sequence[bytes] = ()
        self._calls: Sequence[float] = ()
        self._echoes: Sequence[float] = ()
        self._ended = False
        self._news = anyio.Event()

    def heard(self, outputs: Sequence[bytes], calls: Sequence[float], echoes: Sequence[float]) -> None:
        """What has come so far. The sequences may grow afterwards."""
        self._outputs, self._calls, self._echoes = outputs, calls, echoes
        self._news.set()

    @asynccontextmanager
    async def beside(self) -> AsyncGenerator[Self]:
        """Take values beside the block, and those of all outputs that have come when it ends."""
        async with anyio.create_task_group() as tg:
            tg.start_soon(self._follow)
            yield self
            self._ended = True
            self._news.set()

    async def _follow(self) -> None:
        for step in self._steps:
            while len(self._calls) < step:
                if self._ended:
                    return
                self._news = anyio.Event()
                await self._news.wait()
            value = await self._value(self._outputs[:step], self._calls[:step], self._echoes)
            if value is None:
                return
            self.reports.add(step, value)
            if self.reports.missed is not None:
                self.missed.set()
                return
