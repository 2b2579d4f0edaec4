"""Has the run's notes rewritten beside the search: no thread waits for them.

A page is due after every `search.notes_every` candidates that can be seen. One call is under way at a time. A call
that fails is a fault's row and no more: no thread, no candidate and no reward depends on it, and the next page is due
as if it had been written. What a page costs is committed with it. One that does not fit into the budget is not asked
for, and neither is any after it.
"""

from dataclasses import dataclass, field

import anyio

from pace_async.context.notes import notes_question
from pace_async.errors import BudgetReached, CandidateFault, InfrastructureFault, PaceBug
from pace_async.implement.notes_writer import NotesWriter
from pace_async.runtime.run.core import Core
from pace_async.state.memory import RUN
from pace_async.state.notes import candidates_seen, is_due, next_page
from pace_async.state.stop_rules import STOP_RULES

WHERE = "notes"


@dataclass(slots=True)
class NotesKeeper:
    """The notes of one run in this process. `tried`: for how many times `notes_every` candidates a page was asked for,
    with or without success. `affordable`: none has failed for the budget yet."""

    core: Core
    writer: NotesWriter
    tried: int = 0
    affordable: bool = True
    _one: anyio.Lock = field(default_factory=anyio.Lock)

    async def keep(self) -> None:
        """Write each page when it is due, until cancelled. Raises GaveUp."""
        while True:
            await self.core.wait_until(lambda: self.core.stopping is None and self._due())
            await self._written()

    async def end(self) -> None:
        """Wait for the page that is under way, and write a last one if the run has come to its own end. Raises
        GaveUp."""
        async with self._one:
            pass
        rule = STOP_RULES.get(self.core.stopping or "")
        if rule is not None and rule.last_page:  # whoever stops a run waits for no page
            await self._written()

    def _due(self) -> bool:
        every = self.core.config.search.notes_every
        passed = candidates_seen(self.core.state) // every
        return self.affordable and passed > self.tried and is_due(self.core.state, every)

    async def _written(self) -> None:
        async with self._one:
            if self._due():
                await self._write()

    async def _write(self) -> None:
        core, state = self.core, self.core.state
        if core.prompts is None:
            raise PaceBug("a run without a context has no notes")
        candidates = candidates_seen(state)
        self.tried = candidates // core.config.search.notes_every
        question = notes_question(core.prompts, state)
        newest = next(reversed(state.memory.view(RUN).ages), state.last_lease)
        try:
            await self.writer.write(question, newest, lambda text: next_page(state, candidates, text))
        except BudgetReached as reached:
            self.affordable = False
            await core.fault(WHERE, InfrastructureFault("unaffordable", str(reached)), newest)
        except (CandidateFault, InfrastructureFault) as fault:
            await core.fault(WHERE, InfrastructureFault(fault.kind, fault.detail), newest)
        core.changed()
