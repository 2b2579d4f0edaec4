"""What the event loop knows of a run: counts, leases, islands, the buffer. All of it follows from committed rows.

Invariant: admitted = closed + open, where open = running + parked + complete + training.
"""

from dataclasses import dataclass, field

from pace_async.events import AdvisorCall
from pace_async.objectives import NO_SPREADS, Spreads
from pace_async.search.state import Island, Member
from pace_async.staleness.gate import Lease, choose_group, deadline_of, may_admit


@dataclass(frozen=True, slots=True)
class Decision:
    """What the advisor decided for a lease, before anything came of it."""

    parent: Member
    calls: tuple[AdvisorCall, ...]
    idea: int | None
    idea_text: str
    experiment: str | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Rollout:
    """A complete rollout in the replay buffer."""

    lease: Lease
    calls: tuple[AdvisorCall, ...]
    reward: float

    @property
    def oldest_version(self) -> int:
        return min(call.oldest_version for call in self.calls)


@dataclass(frozen=True, slots=True)
class Work:
    """A lease to work on; with `decision` where an earlier process had got so far."""

    lease: Lease
    island: int
    decision: Decision | None = None


@dataclass(slots=True)
class RunState:
    """Mutable, touched by the event loop only."""

    size: int
    bound: int
    islands: dict[int, Island]
    learner: int = 0
    served: int = 0
    groups: int = 0
    evaluated: int = 0
    next_lease: int = 1
    spend_usd: float = 0.0
    best: Member | None = None
    weights: str | None = None
    spreads: Spreads = NO_SPREADS
    running: dict[int, Lease] = field(default_factory=dict[int, Lease])
    parked: dict[int, Lease] = field(default_factory=dict[int, Lease])
    complete: dict[int, Rollout] = field(default_factory=dict[int, Rollout])
    training: tuple[Rollout, ...] = ()
    unfinished: list[Work] = field(default_factory=list[Work])

    @property
    def open(self) -> int:
        """Leases that are not closed."""
        return len(self.running) + len(self.parked) + len(self.complete) + len(self.training)

    def may_admit(self) -> bool:
        """Whether the gate lets one more lease open."""
        return may_admit(self.open, self.learner, self.served, bound=self.bound, size=self.size)

    def open_lease(self) -> Lease:
        """Admit the next lease. Only after `may_admit`."""
        lease = Lease(deadline_of(self.served, self.bound), self.next_lease)
        self.next_lease += 1
        self.running[lease.lease] = lease
        return lease

    def finish(self, rollout: Rollout) -> None:
        """A running lease is complete and waits in the buffer."""
        del self.running[rollout.lease.lease]
        self.complete[rollout.lease.lease] = rollout

    def close(self, lease: int) -> None:
        """A lease that will not be trained leaves."""
        self.running.pop(lease, None)
        self.complete.pop(lease, None)

    def park(self, lease: int) -> None:
        """Leave a running lease open, for a resume to work on; it keeps its deadline."""
        self.parked[lease] = self.running.pop(lease)

    def choose_group(self) -> tuple[Rollout, ...] | None:
        """The next group to ship, or None to wait. Nothing ships while a group is in training."""
        if self.training:
            return None
        complete = [rollout.lease for rollout in self.complete.values()]
        chosen = choose_group(
            complete, [*self.running.values(), *self.parked.values(), *complete], self.learner, self.size
        )
        return None if chosen is None else tuple(self.complete[lease.lease] for lease in chosen)

    def ship(self, group: tuple[Rollout, ...]) -> int:
        """Take a group out of the buffer into training; its number."""
        for rollout in group:
            del self.complete[rollout.lease.lease]
        self.training = group
        self.groups += 1
        return self.groups

    def end_group(self, version: int, weights: str | None) -> None:
        """The group in training has ended, at learner version `version`."""
        self.training = ()
        self.learner = version
        self.weights = weights or self.weights
