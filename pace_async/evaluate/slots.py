"""Slots of evaluations. Each owns the processors and the cards that its evaluation uses, if the task asks for some.

Invariant: a slot is held by one evaluation at a time, and what it owns belongs to no other slot, except a card of which
the task asks for a share.
"""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio

from pace_async.evaluate.base import Limits
from pace_async.evaluate.sandbox.tiers import THREADS
from pace_async.gpus import Card, driver_libraries, driver_nodes


@dataclass(frozen=True, slots=True)
class Slot:
    """What an evaluation owns. Without `processors` it shares all of them."""

    processors: tuple[int, ...] = ()
    cards: tuple[Card, ...] = ()

    def limits(self, limits: Limits) -> Limits:
        """The limits of an evaluation in this slot. CUDA reserves more addresses than any limit on them would leave."""
        if self.processors:
            limits = replace(limits, processors=self.processors)
        if not self.cards:
            return limits
        all_of_them = int(limits.seconds * len(os.sched_getaffinity(0))) + 2
        return replace(
            limits,
            address_space=False,
            processor_s=all_of_them if limits.processor_s is None else limits.processor_s,
            devices=(*(card.node for card in self.cards), *driver_nodes()),
            libraries=driver_libraries(),
        )

    def variables(self, *, alone: bool) -> dict[str, str]:
        """Variables for the libraries of a program: how many threads to start, and which cards to use. `alone`: no
        other card can be opened in the sandbox, so CUDA counts from 0 there."""
        threads: dict[str, str] = {}
        if self.processors:
            threads.update(dict.fromkeys(THREADS, str(len(self.processors))))
        if not self.cards:
            return threads
        names = [str(at) if alone else card.name for at, card in enumerate(self.cards)]
        if all(card.uuid for card in self.cards):
            names = [card.uuid for card in self.cards]
        return {**threads, "CUDA_VISIBLE_DEVICES": ",".join(names)}


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
