"""The only way to change a run's state: claim a place if other tasks must see it at once, commit, apply, show.

Invariant: in a running run, no other code calls a committing method of the population, and no other code calls `apply`.
An uncommitted fact is neither in the state nor shown.

A decision sees exactly the facts committed before it, because commits are made in the order of their requests. So a
task whose commit affects the decisions of others claims its place first: the number and the slot of a lease, the USD of
a call, and the parts of a rollout that other islands may see. A place is claimed only while its commit takes. Then the
fact is applied, or, if the commit fails or is cancelled, the place is given up and nothing remains of it.

Money goes this way twice for each call: its highest cost is claimed and committed before the call, and its actual cost
after it. So spent + reserved ≤ budget at every moment, in memory and in the rows. If the next call does not fit beside
the calls in flight it waits for them, because most cost far less than was reserved. If it would not fit even without
them, the budget is reached.
"""

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import anyio

from pace_async.errors import BudgetReached
from pace_async.events import Fact, FaultSeen, ImplementerCalled, ImplementerReserved
from pace_async.observe.bus import Bus
from pace_async.population.base import Population
from pace_async.providers.base import IMPLEMENTER, Caller
from pace_async.runtime.run.clock import Clock
from pace_async.runtime.run.snapshots import Snapshots
from pace_async.search.state import Member
from pace_async.state.apply import apply
from pace_async.state.run_state import Opening, Rollout, RunState

T = TypeVar("T")


@dataclass(slots=True)
class Recorder:
    """Connects a run's population, its state and its watchers. `snapshots` None: none is kept."""

    population: Population
    state: RunState
    bus: Bus
    snapshots: Snapshots | None = None

    async def record(self, *facts: Fact) -> None:
        """Commit facts in one transaction, apply them, show them. If it raises GaveUp, nothing was changed."""
        try:
            await self.population.commit(*facts)
        except BaseException:
            if self.snapshots is not None:
                self.snapshots.stop()
            raise
        for fact in facts:
            apply(self.state, fact)
        for fact in facts:
            self.bus.publish(fact)
        if self.snapshots is not None:
            self.snapshots.after(facts)

    async def record_uncut(self, *facts: Fact) -> None:
        """The same for something that has happened already, such as a paid call. Cancelling the caller does not
        interrupt it."""
        with anyio.CancelScope(shield=True):
            await self.record(*facts)


class _Entered(AbstractContextManager[None], Generic[T]):
    """Entries that stand in a table as long as the body lasts. A generator would take twice as long."""

    __slots__ = ("_entries", "_table")

    def __init__(self, table: dict[int, T], entries: Mapping[int, T]) -> None:
        self._table, self._entries = table, entries

    def __enter__(self) -> None:
        self._table.update(self._entries)

    def __exit__(self, *_: object) -> None:
        for number in self._entries:
            self._table.pop(number, None)


class ClaimedPlace:
    """The ways to claim a place. Each lasts as long as the body of its `with`."""

    @staticmethod
    def lease(state: RunState, place: Opening) -> AbstractContextManager[None]:
        """Claim the next lease for its island. Only after `may_admit`."""
        return _Entered(state.claimed.openings, {place.lease.lease: place})

    @staticmethod
    def program(state: RunState, lease: int, island: int, member: Member | None) -> AbstractContextManager[None]:
        """Let the other islands use this program as a parent."""
        return _Entered(state.claimed.programs, {lease: (island, member)} if member is not None else {})

    @staticmethod
    def rollouts(state: RunState, *rollouts: Rollout) -> AbstractContextManager[None]:
        """Let the other islands see the programs and ideas of these rollouts."""
        return _Entered(state.claimed.rollouts, {rollout.lease.lease: rollout for rollout in rollouts})

    @staticmethod
    def named(state: RunState, programs: Mapping[int, tuple[int, Member]]) -> AbstractContextManager[None]:
        """Let words of people that are about to be taken in be about these programs."""
        return _Entered(state.claimed.named, programs)

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


class SettlementSignal:
    """Wakes the tasks that wait until a call is settled."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    async def wait(self) -> None:
        """Return when the next call is settled."""
        await self._event.wait()

    def wake(self) -> None:
        """Wake all that wait."""
        event, self._event = self._event, anyio.Event()
        event.set()


class BudgetLedger:
    """Implements `providers.base.CallLedger` for one of those who ask. `budget` in USD, None for no limit. Those who
    share a budget share `settled`."""

    def __init__(
        self,
        recorder: Recorder,
        clock: Clock,
        budget: float | None,
        caller: Caller = IMPLEMENTER,
        settled: SettlementSignal | None = None,
    ) -> None:
        self._recorder = recorder
        self._state = recorder.state
        self._clock = clock
        self._budget = budget
        self._caller = caller
        self._settled = settled or SettlementSignal()

    def of(self, caller: Caller) -> "BudgetLedger":
        """The same budget for another who asks."""
        return BudgetLedger(self._recorder, self._clock, self._budget, caller, self._settled)

    @property
    def reserved_usd(self) -> float:
        """The highest cost of the calls in flight, in USD."""
        return self._state.reserved_usd

    async def reserve(self, lease: int, model: str, usd: float) -> int:
        while self._budget is not None and self._state.spend_usd + self.reserved_usd + usd > self._budget:
            if self._state.spend_usd + usd > self._budget or not self._state.calls_in_flight:
                left = max(0.0, self._budget - self._state.spend_usd)
                raise BudgetReached(usd, left)
            await self._settled.wait()
        with ClaimedPlace.money(self._state, usd) as number:
            try:
                now, role = self._clock.now(), self._caller.role
                await self._recorder.record_uncut(ImplementerReserved(number, lease, model, usd, now, role))
            except BaseException:
                self._settled.wake()
                raise
        return number

    async def settle(self, call: ImplementerCalled) -> None:
        await self._recorder.record_uncut(call)
        if call.reservation is not None:
            self._settled.wake()

    async def fault(self, kind: str, detail: str, lease: int | None) -> None:
        await self._recorder.record_uncut(FaultSeen(self._caller.stage, kind, detail, lease, self._clock.now()))
