"""The seam between deciding and coding, and the one between coding and the money it costs."""

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
    """A whole program. `mechanism` names the kind of edit where the implementer has a name for it."""

    program: str
    mechanism: str | None = None


class Implementer(Protocol):
    """Turns one chosen experiment into one program. What its calls cost is in the ledger when it returns or raises."""

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> Implemented:
        """Raises CandidateFault if no program can be made of it, InfrastructureFault if the service failed,
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
