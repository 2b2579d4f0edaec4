"""Two seams: Implementer, which turns an experiment into code, and CallLedger, which records what the calls cost."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pace_async.errors import CandidateFault
from pace_async.events import ImplementerCalled, ImplementerTry
from pace_async.search.state import Member
from pace_async.task import Task


@dataclass(frozen=True, slots=True)
class Experiment:
    """The advisor's choice: the idea that it tests, and the exact change to the parent. `tries` are the failed answers
    so far, oldest first. `model` is the chosen model, or None if it is still to be drawn."""

    lease: int
    idea: str
    description: str
    tries: tuple[ImplementerTry, ...] = ()
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Implemented:
    """A whole program. `mechanism` names the kind of edit, if the implementer has a name for it. `tried` is the answer
    it came from, if its model can try again after seeing an error."""

    program: str
    mechanism: str | None = None
    tried: ImplementerTry | None = None


class Unusable(CandidateFault):
    """A model's answer gives no program that compiles. `tried` is the answer, which is in the ledger."""

    def __init__(self, tried: ImplementerTry) -> None:
        super().__init__(tried.outcome, tried.detail)
        self.tried = tried


class Implementer(Protocol):
    """Turns one experiment into one program. When it returns or raises, the ledger has the cost of its calls."""

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> Implemented:
        """Raises CandidateFault (Unusable for a model's answer) if no program can be made, InfrastructureFault if the
        service failed, BudgetReached if a call does not fit the budget, GaveUp if no service answered within the
        patience."""
        ...


BuiltInFactory = Callable[[Task], Implementer]
"""Makes a built-in implementer for one task. Raises UsageError if the task lacks what it needs."""


class CallLedger(Protocol):
    """Records every call before and after it is made. Invariant: spent + reserved ≤ budget."""

    async def reserve(self, lease: int, model: str, usd: float) -> int:
        """Commit that a call may cost up to `usd`. Returns the number of the reservation. Waits while calls in flight
        may free budget. Raises BudgetReached if the call cannot fit. Nothing is written then."""
        ...

    async def settle(self, call: ImplementerCalled) -> None:
        """Commit the cost of a call, and close its reservation if it has one."""
        ...

    async def fault(self, kind: str, detail: str, lease: int | None) -> None:
        """Commit that a service failed."""
        ...
