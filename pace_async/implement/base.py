"""The seam between deciding and coding."""

from dataclasses import dataclass
from typing import Protocol

from pace_async.events import ImplementerCalled
from pace_async.search.state import Member
from pace_async.task import Task


@dataclass(frozen=True, slots=True)
class Experiment:
    """What the advisor chose: the idea it tests, and what exactly to do to the parent."""

    lease: int
    idea: str
    description: str


@dataclass(frozen=True, slots=True)
class Implemented:
    """A whole program. `mechanism` names the kind of edit where the implementer has a name for it; `calls` are what
    it cost."""

    program: str
    mechanism: str | None = None
    calls: tuple[ImplementerCalled, ...] = ()


class Implementer(Protocol):
    """Turns one chosen experiment into one program."""

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> Implemented:
        """Raises CandidateFault if no program can be made of it, InfrastructureFault if the service failed."""
        ...
