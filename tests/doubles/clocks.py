"""Clocks for tests: sleeps that take no time, machines that are suspended, clocks that are set while they run."""

import time

import anyio
import anyio.lowlevel

from pace_async.runtime.run.clock import RealClock
from pace_async.simulate.virtual import VirtualClock


class Impatient:
    """The machine's clock, except that sleeping takes one turn of the event loop."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.lowlevel.checkpoint()


class Brisk:
    """The machine's clock, except that no sleep is longer than a moment."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(min(seconds, 0.02))


class Sleepy:
    """The machine's clock, on a machine that is suspended for hours again and again."""

    def __init__(self) -> None:
        self._real, self._slept, self._asked = RealClock(), 0.0, 0

    def now(self) -> float:
        self._asked += 1
        self._slept += 36_000.0 * (self._asked % 7 == 0)
        return self._real.now() + self._slept

    def monotonic(self) -> float:
        return self._real.monotonic()

    async def sleep(self, seconds: float) -> None:
        self._slept += 36_000.0
        await anyio.lowlevel.checkpoint()


class Jumping(VirtualClock):
    """The machine's clock is set again and again, a year forwards or backwards."""

    def __init__(self) -> None:
        self._asked = 0

    def now(self) -> float:
        self._asked += 1
        return super().now() + 3.15e7 * (-1) ** self._asked
