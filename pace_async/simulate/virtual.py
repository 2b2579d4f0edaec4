"""Virtual time: an event loop whose clock jumps to the next timer as soon as nothing can run.

Every wait for time in the process uses virtual time: `anyio.sleep`, deadlines, timeouts, the Clock of the runtime.
Invariant: time stands still while any task can run and while work outside the loop is awaited (`outside`, such as a
database thread), so that the machine's speed never changes a result. If nothing can run, no timer is set and nothing
outside is awaited, the loop raises `Deadlock` instead of hanging. Not for stages that wait for sockets or child
processes without `outside`: the loop cannot see such waits.
"""

import asyncio
import math
import selectors
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

import anyio

from pace_async.errors import PaceBug

T = TypeVar("T")


class Deadlock(PaceBug):
    """Every task waits and nothing can wake any of them."""


_RESOLUTION_S = 1e-9
_COARSE_S = 2.0**22
"""Up to here one step of the clock's floating-point numbers is below the resolution."""
POLL_EVERY = 16
"""Jumps of the clock between two polls for signals and other threads."""


class _Selector(selectors.BaseSelector):
    """Advances the clock instead of waiting. Polls from time to time."""

    def __init__(self, start: float) -> None:
        self._real = selectors.DefaultSelector()
        self.now = start
        self.outside = 0
        self.coarse: Callable[[float], None] | None = None
        self._jumps = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and not self.outside:
            if timeout <= 0:
                return []
            self._jumps += 1
            if self._jumps % POLL_EVERY:
                self._jump(timeout)
                return []
        ready = self._real.select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self.outside:
            return self._real.select(None)
        if timeout is None:
            raise Deadlock(f"at virtual time {self.now:.3f} every task waits and nothing can wake one")
        self._jump(timeout)
        return []

    def _jump(self, seconds: float) -> None:
        self.now += seconds
        if self.now >= _COARSE_S and self.coarse is not None:
            self.coarse(self.now)

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
    """An event loop under virtual time, from `start` seconds since the epoch."""

    _made = False

    def __init__(self, start: float = 0.0) -> None:
        self._virtual = _Selector(start)
        super().__init__(self._virtual)
        self._made = True
        self._tolerate(start)
        self._virtual.coarse = self._tolerate

    def __del__(self) -> None:
        if self._made:  # asyncio cannot close a loop whose making was interrupted, and would say so
            super().__del__()

    def time(self) -> float:
        return self._virtual.now

    def _tolerate(self, now: float) -> None:
        """Set the tolerance that asyncio adds to the time, instead of the real clock's resolution. It must exceed one
        step of the clock's floating-point numbers, or a timer that is due now never fires."""
        self._clock_resolution = max(_RESOLUTION_S, math.ulp(now))

    @contextmanager
    def outside(self) -> Generator[None]:
        """While the body awaits work outside the loop, virtual time stands still and the loop really waits."""
        self._virtual.outside += 1
        try:
            yield
        finally:
            self._virtual.outside -= 1


class VirtualClock:
    """Implements `runtime.clock.Clock` on a VirtualLoop. Seconds since the epoch, which is when virtual time began."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


def run_virtually(main: Callable[[], Awaitable[T]], *, start: float = 0.0) -> T:
    """Run `main` to its end on a VirtualLoop. Raises Deadlock if it can never end."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(start)) as runner:
        return runner.run(_awaited(main))


async def _awaited(main: Callable[[], Awaitable[T]]) -> T:
    return await main()
