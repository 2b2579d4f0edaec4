"""The money of a run: what may be spent before each call, what was spent after it.

Invariant: spent + reserved ≤ budget at every moment, in memory and, because each reservation is committed before its
call, in the rows too. Where the next call does not fit beside the calls in flight it waits for them, because most cost
far less than was reserved; where it would not fit without them either, the budget is reached.
"""

import anyio

from pace_async.errors import BudgetReached
from pace_async.events import FaultSeen, ImplementerCalled, ImplementerReserved
from pace_async.runtime.run.clock import Clock
from pace_async.runtime.run.recorder import Recorder
from pace_async.state.claimed import ClaimedPlace


class BudgetLedger:
    """Implements `implement.base.CallLedger`. `budget` in USD, None for no limit."""

    def __init__(self, recorder: Recorder, clock: Clock, budget: float | None) -> None:
        self._recorder = recorder
        self._state = recorder.state
        self._clock = clock
        self._budget = budget
        self._settled = anyio.Event()

    @property
    def reserved_usd(self) -> float:
        """What the calls in flight may cost."""
        return self._state.reserved_usd

    async def reserve(self, lease: int, model: str, usd: float) -> int:
        while self._budget is not None and self._state.spend_usd + self.reserved_usd + usd > self._budget:
            if self._state.spend_usd + usd > self._budget or not self._state.calls_in_flight:
                left = max(0.0, self._budget - self._state.spend_usd)
                raise BudgetReached(usd, left)
            await self._settled.wait()
        with ClaimedPlace.money(self._state, usd) as number:
            try:
                await self._recorder.record_uncut(ImplementerReserved(number, lease, model, usd, self._clock.now()))
            except BaseException:
                self._wake()
                raise
        return number

    async def settle(self, call: ImplementerCalled) -> None:
        await self._recorder.record_uncut(call)
        if call.reservation is not None:
            self._wake()

    async def fault(self, kind: str, detail: str, lease: int | None) -> None:
        await self._recorder.record_uncut(FaultSeen("implement", kind, detail, lease, self._clock.now()))

    def _wake(self) -> None:
        """Let those look again that wait for calls in flight."""
        event, self._settled = self._settled, anyio.Event()
        event.set()
