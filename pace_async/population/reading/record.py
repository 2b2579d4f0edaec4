"""A run's record from its journal and its rows: the only value from which the runtime continues after a crash.

Invariant: the same facts give the same record. The same fold that made the state rebuilds it. Not a cache: it is read
once, when a run starts or resumes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pace_async.events import Closing, ImplementerReserved, RunHeader
from pace_async.search.state import Member
from pace_async.state.run_state import RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a run is, in figures. Reading them costs hardly more for a longer run. `state` is the last committed
    state, or "created" before the first. `best` is the best program so far, the task's own included. `groups` counts
    ended groups, skipped ones too. `candidates` counts evaluated rollouts without the task's own program. `reserved`
    are the calls whose end is not known. `changes` are the settings that resumes changed, with their latest values."""

    run_id: int
    header: RunHeader
    state: str
    reason: str
    best: Member | None
    groups: int
    candidates: int
    spend_usd: float
    reserved: tuple[ImplementerReserved, ...] = ()
    changes: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def finished(self) -> bool:
        """Whether the run ended normally, so that a resume needs a raised limit."""
        return self.state == "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord(Standing):
    """Everything from which a runtime continues a run. `run_state` is the fold over its facts, with the islands that
    have opened a lease. `closings` has every way to close. Fresh instances derive from `secret`. `own_scores` are the
    scores of the task's own program on them, by the number of the seed, and `own_metrics` what it measured there."""

    run_state: RunState
    admitted: int
    closings: Mapping[Closing, int]
    secret: str = field(default="", repr=False)
    own_scores: Mapping[int, float | None] = field(default_factory=dict[int, float | None])
    own_metrics: Mapping[int, Mapping[str, float]] = field(default_factory=dict[int, Mapping[str, float]])

    @property
    def leases(self) -> tuple[int, ...]:
        """The open leases, by number."""
        state = self.run_state
        training = (rollout.lease.lease for rollout in state.training)
        return tuple(sorted((*state.running, *state.complete, *training)))
