"""Virtual time: an event loop whose clock jumps to the next timer as soon as nothing can run.

Everything that waits on time in the process then waits on virtual time: `anyio.sleep`, deadlines, timeouts, the Clock
of the runtime. Invariant: time stands still while any task can run and while work outside the loop is awaited
(`outside`: a database thread, say), so that how fast this machine is never shows in a result. When nothing can run, no
timer is set and nothing outside is awaited, nothing can ever happen again, and the loop says so (`Deadlock`) instead of
hanging. Not for stages that wait on sockets or child processes of their own accord: nobody would know that they do.
"""

import asyncio
import math
import selectors
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import anyio

from pace_async.errors import PaceBug
from pace_async.events import Fact
from pace_async.population.base import Population

T = TypeVar("T")


class Deadlock(PaceBug):
    """Every task waits and nothing can wake one."""


_RESOLUTION_S = 1e-9
POLL_EVERY = 16
"""Jumps of the clock from one look at what signals and other threads have to say to the next."""


class _Selector(selectors.BaseSelector):
    """Where the loop would wait, advances the clock instead; polls now and then."""

    def __init__(self, start: float) -> None:
        self._real = selectors.DefaultSelector()
        self.now = start
        self.outside = 0
        self._jumps = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and not self.outside:
            if timeout <= 0:
                return []
            self._jumps += 1
            if self._jumps % POLL_EVERY:
                self.now += timeout
                return []
        ready = self._real.select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self.outside:
            return self._real.select(None)
        if timeout is None:
            raise Deadlock(f"at virtual time {self.now:.3f} every task waits and nothing can wake one")
        self.now += timeout
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Any:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at `start` seconds since the epoch."""

    def __init__(self, start: float = 0.0) -> None:
        self._virtual = _Selector(start)
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    @property
    def _clock_resolution(self) -> float:
        """By how much a timer may be early, which asyncio adds to the time: less than a step of the clock's numbers
        would be lost in them, and a timer that is due now would never come."""
        return max(_RESOLUTION_S, math.ulp(self._virtual.now))

    @_clock_resolution.setter
    def _clock_resolution(self, seconds: float) -> None:
        """That of the real clock, which says nothing here."""

    @contextmanager
    def outside(self) -> Generator[None]:
        """Time stands still, and is waited for really, while the body awaits work outside the loop."""
        self._virtual.outside += 1
        try:
            yield
        finally:
            self._virtual.outside -= 1


class Outside:
    """A population whose database works in threads, driven from a VirtualLoop: time stands still while it works."""

    def __init__(self, population: Population, loop: VirtualLoop) -> None:
        self._population = population
        self._loop = loop

    async def commit(self, *facts: Fact) -> None:
        with self._loop.outside():
            await self._population.commit(*facts)

    async def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> Sequence[Mapping[str, Any]]:
        with self._loop.outside():
            return await self._population.query(sql, parameters)


class VirtualClock:
    """Implements `runtime.clock.Clock` on a VirtualLoop. Seconds since the epoch, which is when virtual time began."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


def run_virtually(main: Callable[[], Awaitable[T]], *, start: float = 0.0) -> T:
    """Run `main` to its end on a VirtualLoop. Raises Deadlock where it can never end."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(start)) as runner:
        return runner.run(_awaited(main))


async def _awaited(main: Callable[[], Awaitable[T]]) -> T:
    return await main()
