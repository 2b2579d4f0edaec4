"""A process that has stopped answering, told apart from one that is slow and from a pause of our own.

Invariant: silence is counted in looks that follow one another, each with a deadline of its own, and never by how late
it is: after this process itself was stopped or its machine slept, one look may fail, and the next is answered.
"""

from collections.abc import Awaitable, Callable

import anyio

LOOKS = 4
"""Looks in a row without an answer after which a process counts as hung."""


async def wait_silent(look: Callable[[], Awaitable[bool]], hung_s: float) -> None:
    """Return when LOOKS looks in a row were not answered well, each begun `hung_s` / LOOKS after the one before, which
    is how long an answer may take."""
    misses = 0
    while misses < LOOKS:
        period = anyio.current_time() + hung_s / LOOKS
        well = False
        with anyio.CancelScope(deadline=period):
            well = await look()
        misses = 0 if well else misses + 1
        await anyio.sleep_until(period)
