"""The one way in which a run's state changes: committed first, then applied, then shown.

Invariant: of a running run, nothing else calls a committing method of the population, and nothing else calls `apply`.
What was not committed is neither known nor shown.
"""

from collections.abc import Callable
from dataclasses import dataclass

import anyio

from pace_async.events import Fact
from pace_async.observe.bus import Bus
from pace_async.population.base import Population
from pace_async.state.apply import apply
from pace_async.state.run_state import RunState


@dataclass(slots=True)
class Recorder:
    """Ties a run's population, its state and its watchers. `refuse_if_gone` raises GaveUp where the run's folder is
    gone: SQLite would write on into a file without a name."""

    population: Population
    state: RunState
    bus: Bus
    refuse_if_gone: Callable[[], None] = lambda: None

    async def record(self, *facts: Fact) -> None:
        """Commit facts in one transaction, apply them, show them. Raises GaveUp, and then none of it has happened."""
        self.refuse_if_gone()
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
