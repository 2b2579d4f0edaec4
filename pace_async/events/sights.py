"""What is shown and never committed."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class StageChanged:
    """Not a fact but a sight: what a search thread is doing now. Shown, never committed."""

    island: int
    lease: int | None
    stage: Literal["waiting", "advise", "implement", "evaluate"]


@dataclass(frozen=True, slots=True)
class LearnerStageChanged:
    """Not a fact but a sight: what the learning side is doing now."""

    stage: Literal["waiting", "learn", "publish"]


@dataclass(frozen=True, slots=True)
class Starting:
    """Not a fact but a sight: what the run waits for before its search begins."""

    what: str


@dataclass(frozen=True, slots=True)
class Stalled:
    """Not a fact but a sight: something cannot be written since `at`, because of `reason`. A FaultSeen of the kind
    "database_back" or "disk_back" ends it."""

    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class CallUnaffordable:
    """Display-only event: the next implementer call may cost `usd`, and the budget has only `left_usd`."""

    usd: float
    left_usd: float


Sight = StageChanged | LearnerStageChanged | Starting | Stalled | CallUnaffordable
