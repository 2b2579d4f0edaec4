"""Starts a child process again that another process kills while it starts."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from pace_async.children import KilledOutside
from pace_async.config import FaultsConfig
from pace_async.errors import InfrastructureFault

T = TypeVar("T")


async def again_if_killed(
    start: Callable[[], Awaitable[T]], faults: FaultsConfig, tell: Callable[[InfrastructureFault], Awaitable[None]]
) -> T:
    """The result of `start`. It is called again, after a pause, when it raises KilledOutside, until patience ends.
    `tell` records each such fault. Raises the last one, and whatever else `start` raises."""
    until, attempt = anyio.current_time() + faults.patience_s, 0
    while True:
        try:
            return await start()
        except KilledOutside as killed:
            attempt += 1
            pause = faults.backoff(attempt)
            if anyio.current_time() + pause >= until:
                raise
            await tell(killed)
            await anyio.sleep(pause)
