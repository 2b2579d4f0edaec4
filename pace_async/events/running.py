"""Facts of the run as a whole: its header, its states, its settings, outside faults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from pace_async.aims import aims_of
from pace_async.fitness import Fitness, fitness_of


@dataclass(frozen=True, slots=True)
class RunHeader:
    """The run's identity and settings, fixed in its row at the start. `trust` says whether programs can reach what
    scores them: "hidden" if not, "shared" in a command task. `prompts_digest` is that of the templates of its questions
    at its start, None for advisors with a wording of their own. `task_folder` is absolute, and `task_suffix` the file
    name extension of the task's programs. Both are None in a run of an earlier version. `noisy`: equal programs may get
    different scores (False in runs of an earlier version). `aims`: several objectives, as JSON."""

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
    trust: str = "hidden"
    prompts_digest: str | None = None
    task_folder: str | None = None
    task_suffix: str | None = None
    noisy: bool = False
    aims: str | None = None

    @property
    def fitness(self) -> Fitness:
        """How scores of the run compare."""
        return fitness_of(self.direction, self.lower, self.upper, aims_of(self.aims))

    @property
    def shares_trust(self) -> bool:
        """Whether a program can write its own score, because its evaluator runs beside it."""
        return self.trust == "shared"

    @property
    def by_confirmed(self) -> bool:
        """Whether the best program is the one with the best confirmed score, because a single score says less."""
        return self.shares_trust or self.noisy

    @property
    def policy(self) -> str:
        """The staleness policy: pace, soft or drop. No resume can change it."""
        staleness = self.config.get("staleness")
        policy = cast("Mapping[str, object]", staleness).get("policy") if isinstance(staleness, Mapping) else None
        return str(policy or "pace")


@dataclass(frozen=True, slots=True)
class RunStateChanged:
    """running, draining, done, stopped_by_budget, interrupted, gave_up, crashed."""

    state: str
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class LoopMeasured:
    """The longest turns of the event loop since this process began to drive the run, in milliseconds of wall clock and
    of the loop thread's processor time."""

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
    """A service or the machine failed. `where` names the stage. `detail` holds no secrets."""

    where: str
    kind: str
    detail: str
    lease: int | None
    at: float
