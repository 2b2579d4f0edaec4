"""The run itself: what it is, how it stands, what failed around it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast


@dataclass(frozen=True, slots=True)
class RunHeader:
    """What the run is, fixed in its row when it starts."""

    name: str
    task: str
    task_digest: str
    seed: int
    objective: str
    advisor: str
    engine: str
    implementer: str
    sandbox: str
    threads: int
    group_size: int
    max_staleness: int
    horizon: int
    lower: float
    upper: float
    direction: str
    config: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def policy(self) -> str:
        """How the run keeps its data fresh: pace, soft or drop. No resume can change it."""
        staleness = self.config.get("staleness")
        named = cast("Mapping[str, object]", staleness).get("policy") if isinstance(staleness, Mapping) else None
        return str(named or "pace")


@dataclass(frozen=True, slots=True)
class RunStateChanged:
    """running, draining, done, stopped_by_budget, interrupted, gave_up, crashed."""

    state: str
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class LoopMeasured:
    """The longest turns of the event loop since this process began to drive the run, in milliseconds: by the wall
    clock, and by the processor time of the loop's thread."""

    longest_stall_ms: float
    longest_turn_cpu_ms: float
    at: float


@dataclass(frozen=True, slots=True)
class SettingChanged:
    """A resume changed a setting. `before` and `after` are JSON."""

    key: str
    before: str
    after: str
    at: float


@dataclass(frozen=True, slots=True)
class FaultSeen:
    """Something outside failed; `where` names the stage. Never a secret in `detail`."""

    where: str
    kind: str
    detail: str
    lease: int | None
    at: float
