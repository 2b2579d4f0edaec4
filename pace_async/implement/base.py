"""The seam between deciding and coding, and the one between coding and the money it costs."""

from dataclasses import dataclass
from typing import Protocol

from pace_async.errors import CandidateFault
from pace_async.events import ImplementerCalled, ImplementerTry
from pace_async.search.state import Member
from pace_async.task import Task


@dataclass(frozen=True, slots=True)
class Experiment:
    """What the advisor chose: the idea it tests, and what exactly to do to the parent. `tries` are the answers to it
    that have failed so far, oldest first; `model` is the one chosen for it, None where it is to be drawn."""

    lease: int
    idea: str
    description: str
    tries: tuple[ImplementerTry, ...] = ()
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Implemented:
    """A whole program. `mechanism` names the kind of edit where the implementer has a name for it. `tried` is the
    answer that it came from, where one that sees its error could give a better one."""

    program: str
    mechanism: str | None = None
    tried: ImplementerTry | None = None


class Unusable(CandidateFault):
    """A model's answer is no program that compiles. `tried` is the answer, which is in the ledger."""

    def __init__(self, tried: ImplementerTry) -> None:
        super().__init__(tried.outcome, tried.detail)
        self.tried = tried


class Implementer(Protocol):
    """Turns one chosen experiment into one program. What its calls cost is in the ledger when it returns or raises."""

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> Implemented:
        """Raises CandidateFault (Unusable for a model's answer) if no program can be made of it, InfrastructureFault if
        the service failed,
        BudgetReached if a call would not fit, GaveUp if no service answered beyond the patience set."""
        ...


class Ledger(Protocol):
    """Where every call is written down, before it is made and after. Invariant: spent + reserved ≤ budget."""

    async def reserve(self, lease: int, model: str, usd: float) -> int:
        """Commit that a call may cost up to `usd`; the number of the reservation. Waits while calls in flight could
        make room. Raises BudgetReached where it cannot fit, and nothing was written."""
        ...

    async def settle(self, call: ImplementerCalled) -> None:
        """Commit what a call cost, and close its reservation where it has one."""
        ...

    async def fault(self, kind: str, detail: str, lease: int | None) -> None:
        """Commit that a service failed."""
        ...
