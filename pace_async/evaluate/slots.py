"""Slots of evaluations. Each owns the processors that its evaluation uses while it runs, if the task asks for some.

Invariant: a slot is held by one evaluation at a time, and what it owns belongs to no other slot.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio

from pace_async.evaluate.base import Limits
from pace_async.evaluate.sandbox.tiers import THREADS


@dataclass(frozen=True, slots=True)
class Slot:
    """What an evaluation owns. Without `processors` it shares all of them."""

    processors: tuple[int, ...] = ()

    def limits(self, limits: Limits) -> Limits:
        """The limits of an evaluation in this slot."""
        return replace(limits, processors=self.processors) if self.processors else limits

    @property
    def variables(self) -> dict[str, str]:
        """Variables that tell libraries how many threads to start."""
        return dict.fromkeys(THREADS, str(len(self.processors))) if self.processors else {}


class Slots:
    """Gives each evaluation a slot, in order of arrival."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._limiter, self._free = anyio.CapacityLimiter(len(slots)), list(reversed(slots))
        self.first, self.count = slots[0], len(slots)

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[Slot]:
        """A free slot. Waits for one."""
        async with self._limiter:
            slot = self._free.pop()
            try:
                yield slot
            finally:
                self._free.append(slot)
