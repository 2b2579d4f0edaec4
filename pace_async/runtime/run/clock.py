"""The seam to time, so that a whole run can be driven by a virtual clock."""

import time
from typing import Protocol

import anyio


class Clock(Protocol):
    """Time as the runtime sees it."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds of a monotonic clock that stands still while the machine sleeps. For patience and deadlines, which a
        jump of the clock must not end."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class RealClock:
    """The machine's clock."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)
