"""Tell a process that has stopped answering from a slow one and from a pause of this process.

Invariant: silence is counted in consecutive looks, each with its own deadline, and never by elapsed time alone. After
this process was stopped or its machine slept, one look may fail, and the next is answered.
"""

from collections.abc import Awaitable, Callable

import anyio

LOOKS = 4
"""Looks in a row without an answer after which a process counts as hung."""


async def wait_silent(look: Callable[[], Awaitable[bool]], hung_s: float) -> None:
    """Return when LOOKS consecutive looks failed. Each begins `hung_s` / LOOKS after the one before, and that is also
    how long an answer may take."""
    misses = 0
    while misses < LOOKS:
        period = anyio.current_time() + hung_s / LOOKS
        well = False
        with anyio.CancelScope(deadline=period):
            well = await look()
        misses = 0 if well else misses + 1
        await anyio.sleep_until(period)
