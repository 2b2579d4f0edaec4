"""The money of a run: what may be spent before each call, what was spent after it.

Invariant: spent + reserved ≤ budget at every moment, in memory and, because each reservation is committed before its
call, in the rows too. Where the next call does not fit beside the calls in flight it waits for them, because most cost
far less than was reserved; where it would not fit without them either, the budget is reached.
"""

import anyio

from pace_async.errors import BudgetReached
from pace_async.events import Fact, FaultSeen, ImplementerCalled, ImplementerReserved
from pace_async.observe.bus import Bus
from pace_async.population.base import Population
from pace_async.runtime.clock import Clock
from pace_async.runtime.state import RunState


class Purse:
    """Implements `implement.base.Ledger`. `budget` in USD, None for no limit; `last` numbers the last reservation."""

    def __init__(
        self, population: Population, bus: Bus, clock: Clock, state: RunState, budget: float | None, last: int = 0
    ) -> None:
        self._population = population
        self._bus = bus
        self._clock = clock
        self._state = state
        self._budget = budget
        self._last = last
        self._reserved: dict[int, float] = {}
        self._settled = anyio.Event()

    @property
    def reserved_usd(self) -> float:
        """What the calls in flight may cost."""
        return sum(self._reserved.values())

    async def reserve(self, lease: int, model: str, usd: float) -> int:
        while self._budget is not None and self._state.spend_usd + self.reserved_usd + usd > self._budget:
            if self._state.spend_usd + usd > self._budget or not self._reserved:
                left = max(0.0, self._budget - self._state.spend_usd)
                raise BudgetReached(usd, left)
            await self._settled.wait()
        self._last += 1
        number = self._last
        self._reserved[number] = usd
        try:
            await self._record(ImplementerReserved(number, lease, model, usd, self._clock.now()))
        except BaseException:
            self._release(number)
            raise
        return number

    async def settle(self, call: ImplementerCalled) -> None:
        await self._record(call)
        self._state.pay(call.lease, call.model, call.cost_usd)
        if call.reservation is not None:
            self._release(call.reservation)

    async def fault(self, kind: str, detail: str, lease: int | None) -> None:
        await self._record(FaultSeen("implement", kind, detail, lease, self._clock.now()))

    def _release(self, number: int) -> None:
        self._reserved.pop(number, None)
        event, self._settled = self._settled, anyio.Event()
        event.set()

    async def _record(self, *facts: Fact) -> None:
        with anyio.CancelScope(shield=True):
            await self._population.commit(*facts)
        for fact in facts:
            self._bus.publish(fact)
