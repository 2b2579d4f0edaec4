"""Who asks models over the network, and the seam to the ledger that records every call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pace_async.events import ImplementerCalled, Role
from pace_async.registry.advisors import API


@dataclass(frozen=True, slots=True)
class Caller:
    """One of those who ask models. `stage` is the name of its faults. `prefix` begins the value of its flag, which is
    that of `named_by` if given."""

    role: Role
    stage: str
    prefix: str = ""
    named_by: Role | None = None

    def flag(self, model: str) -> str:
        """The flag that names a model, for a sentence."""
        return f"--{self.named_by or self.role} {self.prefix}{model}"


IMPLEMENTER = Caller("implementer", "implement")
ADVISOR = Caller("advisor", "advise", API)
ADVISING_IMPLEMENTER = Caller("advisor", "advise", named_by="implementer")
"""The advisor where it is a model of the implementer, which its own flag need not have named."""
NOTES = Caller("notes", "notes")
"""The model is that of one of the two others, so it has no flag of its own."""
CALLERS: Mapping[Role, Caller] = {caller.role: caller for caller in (IMPLEMENTER, ADVISOR, NOTES)}


@dataclass(frozen=True, slots=True)
class Share:
    """A model and its weight, > 0."""

    model: str
    weight: float


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """A model's answer. `finish` is stop, length, content_filter, …. `cost_usd` is None if it is unknown, because the
    provider did not report its tokens."""

    text: str
    finish: str
    refused: bool
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    seconds: float


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
