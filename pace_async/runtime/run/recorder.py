"""The one way in which a run's state changes: claimed where others must see it at once, committed, applied, shown.

Invariant: of a running run, nothing else calls a committing method of the population, and nothing else calls `apply`.
What was not committed is neither known nor shown.

A decision sees exactly what is committed before it, because commits are made in the order in which they are asked for.
So a task that asks for a commit on which the decisions of others rest claims its place first: the number and the slot
of a lease, the USD of a call, and what the other islands may see of a rollout. A place is claimed for as long as its
commit takes and no longer. With the fact applied it is no longer claimed but known. Where the commit fails or is
cancelled, it is given up and nothing remains of it.

The money of a run goes this way twice a call: what it may cost is claimed and committed before it, what it cost after
it. So spent + reserved ≤ budget at every moment, in memory and in the rows. Where the next call does not fit beside the
calls in flight it waits for them, because most cost far less than was reserved. Where it would not fit without them
either, the budget is reached.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio

from pace_async.errors import BudgetReached
from pace_async.events import Fact, FaultSeen, ImplementerCalled, ImplementerReserved
from pace_async.observe.bus import Bus
from pace_async.population.base import Population
from pace_async.runtime.run.clock import Clock
from pace_async.search.state import Member
from pace_async.state.apply import apply
from pace_async.state.run_state import Opening, Rollout, RunState


@dataclass(slots=True)
class Recorder:
    """Ties a run's population, its state and its watchers."""

    population: Population
    state: RunState
    bus: Bus

    async def record(self, *facts: Fact) -> None:
        """Commit facts in one transaction, apply them, show them. Raises GaveUp, and then none of it has happened."""
        await self.population.commit(*facts)
        for fact in facts:
            apply(self.state, fact)
        for fact in facts:
            self.bus.publish(fact)

    async def record_uncut(self, *facts: Fact) -> None:
        """The same for what has happened already, such as a call that was paid: cancelling the caller does not cut it
        short."""
        with anyio.CancelScope(shield=True):
            await self.record(*facts)


class ClaimedPlace:
    """The ways to claim a place. Each lasts as long as the body of its `with`."""

    @staticmethod
    @contextmanager
    def lease(state: RunState, place: Opening) -> Generator[None]:
        """The next lease is its island's. Only after `may_admit`."""
        state.claimed.openings[place.lease.lease] = place
        try:
            yield
        finally:
            state.claimed.openings.pop(place.lease.lease, None)

    @staticmethod
    @contextmanager
    def program(state: RunState, lease: int, island: int, member: Member | None) -> Generator[None]:
        """The other islands may go on from this program."""
        if member is not None:
            state.claimed.programs[lease] = island, member
        try:
            yield
        finally:
            state.claimed.programs.pop(lease, None)

    @staticmethod
    @contextmanager
    def rollouts(state: RunState, *rollouts: Rollout) -> Generator[None]:
        """The other islands may see all that these found."""
        state.claimed.rollouts.update({rollout.lease.lease: rollout for rollout in rollouts})
        try:
            yield
        finally:
            for rollout in rollouts:
                state.claimed.rollouts.pop(rollout.lease.lease, None)

    @staticmethod
    @contextmanager
    def money(state: RunState, usd: float) -> Generator[int]:
        """Reserve up to `usd` for a call. Yields the number of the reservation."""
        number = max(state.reservations, *state.claimed.money, 0) + 1
        state.claimed.money[number] = usd
        try:
            yield number
        finally:
            state.claimed.money.pop(number, None)


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
