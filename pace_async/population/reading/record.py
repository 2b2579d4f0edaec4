"""A run's record from its journal and its rows: the only value from which the runtime continues after a crash.

Invariant: the same facts give the same record. The same fold that made the state rebuilds it. Not a cache: it is read
once, when a run starts or resumes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pace_async.events import Closing, GroupShipped, ImplementerReserved, RunHeader
from pace_async.search.state import Island, Member
from pace_async.staleness.rollback import Health
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
    scores of the task's own program on them, by the number of the seed."""

    run_state: RunState
    admitted: int
    closings: Mapping[Closing, int]
    secret: str = field(default="", repr=False)
    own_scores: Mapping[int, float | None] = field(default_factory=dict[int, float | None])

    @property
    def leases(self) -> tuple[int, ...]:
        """The open leases, by number."""
        state = self.run_state
        training = (rollout.lease.lease for rollout in state.training)
        return tuple(sorted((*state.running, *state.complete, *training)))

    @property
    def islands(self) -> Mapping[int, Island]:
        """The islands that have opened a lease, by number."""
        return self.run_state.islands

    @property
    def seed_program(self) -> Member | None:
        """The task's own program, None while it has no score."""
        return self.run_state.seed_program

    @property
    def version(self) -> int:
        """The learner's version."""
        return self.run_state.learner

    @property
    def published(self) -> int:
        """The last published version."""
        return self.run_state.served

    @property
    def shipped(self) -> GroupShipped | None:
        """The group given to the learner whose end is not known."""
        return self.run_state.shipped

    @property
    def next_lease(self) -> int:
        """The number of the next lease."""
        return self.run_state.last_lease + 1

    @property
    def reservations(self) -> int:
        """The number of all reservations so far."""
        return self.run_state.reservations

    @property
    def health(self) -> Health:
        """The advisor's health after the groups shipped so far."""
        return self.run_state.health

    @property
    def attempts(self) -> Mapping[tuple[int, str, int], int]:
        """The newest attempt to evaluate a program, by (lease, stage, fresh)."""
        return self.run_state.attempts
