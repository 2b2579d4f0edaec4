"""Display-only events, never persisted."""

from dataclasses import dataclass
from typing import Literal

from pace_async.frozen_values import fast_init


@fast_init
@dataclass(frozen=True, slots=True)
class StageChanged:
    """A search thread entered another stage. `lease` is None while it waits for one."""

    island: int
    lease: int | None
    stage: Literal["waiting", "advise", "implement", "evaluate"]


@dataclass(frozen=True, slots=True)
class LearnerStageChanged:
    """The learning loop entered another stage."""

    stage: Literal["waiting", "learn", "publish"]


@dataclass(frozen=True, slots=True)
class Starting:
    """The run waits for `what` before its search begins."""

    what: str


@dataclass(frozen=True, slots=True)
class Stalled:
    """Since `at` a write fails because of `reason`. A FaultSeen of the kind "database_back" or "disk_back" ends it."""

    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class CallUnaffordable:
    """The next implementer call may cost `usd`, and the budget has only `left_usd`."""

    usd: float
    left_usd: float


@dataclass(frozen=True, slots=True)
class AdmissionHeld:
    """A person at the keyboard holds back new leases, or lets them open again."""

    held: bool
    at: float


@dataclass(frozen=True, slots=True)
class NodesSeen:
    """So many machines of a cluster evaluate. They have `slots` slots, and programs are in `busy` of them."""

    nodes: int
    slots: int
    busy: int


TransientEvent = StageChanged | LearnerStageChanged | Starting | Stalled | CallUnaffordable | AdmissionHeld | NodesSeen
