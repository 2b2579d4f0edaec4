"""The seam to the implementer, which turns an experiment into code."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pace_async.context.briefing import Briefing
from pace_async.errors import CandidateFault
from pace_async.events import ImplementerTry
from pace_async.search.state import Member
from pace_async.task import Task


@dataclass(frozen=True, slots=True)
class Experiment:
    """The advisor's choice: the idea that it tests, and the exact change to the parent. `tries` are the failed answers
    so far, oldest first. `model` is the chosen model, or None if it is still to be drawn. `briefing` is what its author
    is told besides, if the run has a context."""

    lease: int
    idea: str
    description: str
    tries: tuple[ImplementerTry, ...] = ()
    model: str | None = None
    briefing: Briefing | None = None


@dataclass(frozen=True, slots=True)
class ImplementedProgram:
    """A whole program. `mechanism` names the kind of edit, if the implementer has a name for it. `tried` is the answer
    it came from, if its model can try again after seeing an error."""

    program: str
    mechanism: str | None = None
    tried: ImplementerTry | None = None


class Unusable(CandidateFault):
    """A model's answer gives no program that compiles. `tried` is the answer, which is in the ledger."""

    def __init__(self, attempt: ImplementerTry) -> None:
        super().__init__(attempt.outcome, attempt.detail)
        self.tried = attempt


class Implementer(Protocol):
    """Turns one experiment into one program. When it returns or raises, the ledger has the cost of its calls."""

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> ImplementedProgram:
        """Raises CandidateFault (Unusable for a model's answer) if no program can be made, InfrastructureFault if the
        service failed, BudgetReached if a call does not fit the budget, GaveUp if no service answered within the
        patience."""
        ...


BuiltInFactory = Callable[[Task], Implementer]
"""Makes a built-in implementer for one task. Raises UsageError if the task lacks what it needs."""
