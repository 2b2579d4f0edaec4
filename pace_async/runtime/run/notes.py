"""Has a run's notes and the pools of its islands kept beside the search: no thread waits for that.

A page is due after every `search.notes_every` candidates that can be seen. A pool is due once it has more than
`search.drop_ideas` ideas, and again when its island knows more. One call of a kind is under way at a time. A call that
fails is a fault's row and no more: no thread, no candidate and no reward depends on it, and the next is due as if it
had not failed. What it costs is committed with what it brings. One that does not fit into the budget is not made, and
neither is any after it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import anyio

from pace_async.context.notes import notes_question
from pace_async.context.notes_page import page_in
from pace_async.context.pools import changes_in, pool_question
from pace_async.context.questions import Prompts, RenderedQuestion
from pace_async.errors import BudgetReached, CandidateFault, InfrastructureFault, PaceBug
from pace_async.events import IdeasLeft, NotesPage
from pace_async.implement.notes_writer import NotesWriter
from pace_async.runtime.run.core import Core
from pace_async.state.memory import RUN
from pace_async.state.notes import candidates_seen, group_to_see, is_due, next_page
from pace_async.state.pools import pool, view_of
from pace_async.state.stop_rules import STOP_RULES

Asking = tuple[RenderedQuestion, int, Callable[[str], NotesPage | IdeasLeft]]
"""A question, the newest candidate that its model knows, and what makes the fact of an answer."""


@dataclass(slots=True)
class Keeper(ABC):
    """Asks for one kind of text. `stage` is the name of its faults. `affordable`: none has failed for the budget
    yet."""

    stage: ClassVar[str]
    core: Core
    writer: NotesWriter
    affordable: bool = True
    _one: anyio.Lock = field(default_factory=anyio.Lock)

    async def keep(self) -> None:
        """Ask whenever something is due, until cancelled. Raises GaveUp."""
        while True:
            await self.core.wait_until(lambda: self.core.stopping is None and self.affordable and self._due())
            await self._write_next()

    async def end(self) -> None:
        """Wait for the call that is under way, as the run ends. Raises GaveUp."""
        async with self._one:
            pass

    @abstractmethod
    def _due(self) -> bool:
        """Whether there may be something to ask for."""

    @abstractmethod
    def _next(self) -> Asking | None:
        """What is due, None if it is nothing after all. From now on it is not due any more."""

    @property
    def _prompts(self) -> Prompts:
        if self.core.prompts is None:
            raise PaceBug("a run without a context has nothing written beside its search")
        return self.core.prompts

    async def _write_next(self) -> None:
        async with self._one:
            if not (self.affordable and self._due()) or (request := self._next()) is None:
                return
            try:
                await self.writer.write(*request)
            except BudgetReached as reached:
                self.affordable = False
                await self._fault("unaffordable", str(reached), request[1])
            except (CandidateFault, InfrastructureFault) as fault:
                await self._fault(fault.kind, fault.detail, request[1])
            self.core.changed()

    async def _fault(self, kind: str, detail: str, newest: int) -> None:
        await self.core.fault(self.stage, InfrastructureFault(kind, detail), newest)


@dataclass(slots=True)
class NotesKeeper(Keeper):
    """The notes of one run in this process. `tried`: for how many times `notes_every` candidates a page was asked for,
    with or without success."""

    stage = "notes"
    tried: int = 0

    async def end(self) -> None:
        """Also writes a last page if the run has come to its own end."""
        async with self._one:
            pass
        rule = STOP_RULES.get(self.core.stopping or "")
        if rule is not None and rule.last_page:  # whoever stops a run waits for no page
            await self._write_next()

    def _due(self) -> bool:
        every = self.core.config.search.notes_every
        passed = candidates_seen(self.core.state) // every
        return passed > self.tried and is_due(self.core.state, every)

    def _next(self) -> Asking:
        state = self.core.state
        candidates = candidates_seen(state)
        self.tried = candidates // self.core.config.search.notes_every
        newest = next(reversed(state.memory.view(RUN).ages), state.last_lease)
        question = notes_question(self._prompts, state)
        return question, newest, lambda answer: next_page(state, candidates, page_in(answer))


@dataclass(slots=True)
class PoolsKeeper(Keeper):
    """The pools of all islands in this process. `known`: how many ideas an island knew when its pool was last looked
    at."""

    stage = "ideas"
    known: dict[int, int] = field(default_factory=dict[int, int])

    def _due(self) -> bool:
        return bool(self._grown())

    def _grown(self) -> list[int]:
        views = self.core.state.memory.views
        return [number for number in sorted(views) if len(views[number].ideas) > self.known.get(number, 0)]

    def _next(self) -> Asking | None:
        for number in self._grown():
            self.known[number] = len(self.core.state.memory.views[number].ideas)
            if (request := self._about(number)) is not None:
                return request
        return None

    def _about(self, number: int) -> Asking | None:
        state = self.core.state
        view = view_of(state, state.islands[number], soon=True)
        ideas = pool(state, view)
        if not view.ages or len(ideas) <= self._prompts.drop_ideas:
            return None
        newest, numbers = view.ages[-1], [idea.number for idea in ideas]
        question = pool_question(self._prompts, view, ideas)
        return (
            question,
            newest,
            lambda answer: IdeasLeft(number, newest, group_to_see(state), changes_in(answer, numbers)),
        )


def keepers_of(core: Core) -> list[Keeper]:
    """Those of what the settings ask for."""
    writer, search = core.stages.notes, core.config.search
    if writer is None:
        return []
    kinds = {NotesKeeper: search.notes_every, PoolsKeeper: search.drop_ideas}
    return [kind(core, writer) for kind, setting in kinds.items() if setting]
