"""What the event loop knows of a run: counts, leases, islands, the buffer. All of it follows from committed rows.

Invariant: admitted = closed + open, where open = running + parked + complete + training; `complete` is in the order of
completion.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from pace_async.events import AdvisorCall, CascadeScore, Claimed, Evaluated, ImplementerChosen, ImplementerTry
from pace_async.implement.base import Implemented
from pace_async.objectives import NO_SPREADS, Spreads
from pace_async.search.bandit import WINDOW, Result, latest
from pace_async.search.parents import fitter
from pace_async.search.state import Idea, Island, Member, Shown
from pace_async.staleness.gate import Lease, deadline_of
from pace_async.staleness.policies import NOTHING, Choice, Finished, Policy, admits, choose
from pace_async.staleness.rollback import NO_GROUPS, Count, Health


@dataclass(frozen=True, slots=True)
class Decision:
    """What the advisor decided for a lease, before a candidate came of it; `chosen` is the implementer that a bandit
    chose. Where an earlier process had got so far: `tries`, the answers of an implementer, `implemented`, the program
    that was made last, and `passed`, the cheap stages that it has passed."""

    parent: Member
    calls: tuple[AdvisorCall, ...]
    idea: int | None
    idea_text: str
    experiment: str | None
    detail: str = ""
    tries: tuple[ImplementerTry, ...] = ()
    chosen: ImplementerChosen | None = None
    implemented: Implemented | None = None
    passed: tuple[CascadeScore, ...] = ()


def member_of(ended: Evaluated) -> Member | None:
    """The candidate as a possible parent; None where it has no score."""
    if ended.program is None or ended.score is None:
        return None
    return Member(candidate=ended.lease, program=ended.program, score=ended.score)


@dataclass(frozen=True)
class Rollout:
    """A complete rollout in the replay buffer, with the pool of its island as it was then, and what came of choosing
    its implementer, if one was chosen; `parsed` is whether all of its answers could be parsed."""

    lease: Lease
    calls: tuple[AdvisorCall, ...]
    reward: float
    island: int
    member: Member | None
    ideas: tuple[Idea, ...] = ()
    result: Result | None = None
    parsed: bool = True

    @cached_property
    def oldest_version(self) -> int:
        """Asked for whenever the learner looks at the buffer."""
        return min(call.oldest_version for call in self.calls)


def counts_of(group: Iterable[Rollout]) -> dict[int, Count]:
    """How many rollouts there are of each version, the oldest of their tokens, and how many were unparsed."""
    counts: dict[int, Count] = {}
    for rollout in group:
        counts[rollout.oldest_version] = counts.get(rollout.oldest_version, Count()) + Count(1, not rollout.parsed)
    return counts


@dataclass(frozen=True, slots=True)
class Work:
    """A lease to work on; with the parent that came from another island, if any, with `decision` where an earlier
    process had got so far, and with `claim` where it was trying the program on fresh instances."""

    lease: Lease
    island: int
    migrant: Member | None = None
    decision: Decision | None = None
    claim: Claimed | None = None


@dataclass(frozen=True, slots=True, order=True)
class Turn:
    """When an island is served among those that wait, the least first: one whose lease was aborted keeps its slot, then
    the one whose last lease is the oldest. Neither depends on how fast anything was, and both can be read from rows."""

    gave_back: bool
    last_lease: int
    island: int


@dataclass(slots=True)
class RunState:
    """Mutable, touched by the event loop only. `elites` and `pools` are what islands see of one another: the best
    program of each among its complete rollouts (with a bound of 0 those whose lease is closed, so under `--sync` as of
    the last group), and the ideas of each as of the newest lease that is closed; `results` what came of choosing
    implementers in closed ones. `paid` is USD by model for each lease that runs."""

    size: int
    bound: int
    direction: str
    islands: dict[int, Island]
    elites: dict[int, Member] = field(default_factory=dict[int, Member])
    pools: dict[int, Shown] = field(default_factory=dict[int, Shown])
    results: dict[int, Result] = field(default_factory=dict[int, Result])
    paid: dict[int, dict[str, float]] = field(default_factory=dict[int, dict[str, float]])
    trains: bool = True
    policy: Policy = "pace"
    learner: int = 0
    served: int = 0
    groups: int = 0
    evaluated: int = 0
    next_lease: int = 1
    spend_usd: float = 0.0
    best: Member | None = None
    weights: str | None = None
    spreads: Spreads = NO_SPREADS
    health: Health = NO_GROUPS
    running: dict[int, Lease] = field(default_factory=dict[int, Lease])
    parked: dict[int, Lease] = field(default_factory=dict[int, Lease])
    complete: dict[int, Rollout] = field(default_factory=dict[int, Rollout])
    training: tuple[Rollout, ...] = ()
    unfinished: list[Work] = field(default_factory=list[Work])
    turns: dict[int, Turn] = field(default_factory=dict[int, Turn])

    @property
    def open(self) -> int:
        """Leases that are not closed."""
        return len(self.running) + len(self.parked) + len(self.complete) + len(self.training)

    def may_admit(self) -> bool:
        """Whether the gate lets one more lease open. Where nothing is trained nothing can become stale."""
        return not self.trains or admits(
            self.policy,
            running=len(self.running) + len(self.parked),
            held=len(self.complete) + len(self.training),
            learner=self.learner,
            served=self.served,
            bound=self.bound,
            size=self.size,
        )

    def open_lease(self, island: int) -> Lease:
        """Admit the next lease. Only after `may_admit`."""
        lease = Lease(deadline_of(self.served, self.bound), self.next_lease)
        self.next_lease += 1
        self.running[lease.lease] = lease
        self.turns[island] = Turn(True, lease.lease, island)
        return lease

    def turn_of(self, island: int) -> Turn:
        """Where an island stands in the order of admission."""
        return self.turns.get(island) or Turn(True, 0, island)

    def finish(self, rollout: Rollout) -> None:
        """A running lease is complete and waits in the buffer."""
        del self.running[rollout.lease.lease]
        self.paid.pop(rollout.lease.lease, None)
        self.complete[rollout.lease.lease] = rollout

    def abort(self, lease: int, island: int) -> None:
        """A running lease has died of the infrastructure; its island keeps the slot."""
        del self.running[lease]
        self.paid.pop(lease, None)
        self.turns[island] = Turn(False, lease, island)

    def pay(self, lease: int, model: str, usd: float) -> None:
        """A call has ended."""
        self.spend_usd += usd
        if lease in self.running:
            paid = self.paid.setdefault(lease, {})
            paid[model] = paid.get(model, 0.0) + usd

    def park(self, lease: int) -> None:
        """Leave a running lease open, for a resume to work on; it keeps its deadline."""
        self.parked[lease] = self.running.pop(lease)

    def release(self, lease: int) -> None:
        """A complete lease that will not be trained leaves."""
        del self.complete[lease]

    def reveal(self, *rollouts: Rollout) -> None:
        """Let the other islands see what these rollouts found. Called just before their closing is committed, so that
        whatever is decided with it is committed later than it."""
        for rollout in rollouts:
            self.reveal_program(rollout)
            shown, lease = self.pools.get(rollout.island), rollout.lease.lease
            if shown is None or shown.lease < lease:
                self.pools[rollout.island] = Shown(lease, rollout.ideas)
            if rollout.result is not None:
                self.results[lease] = rollout.result
        if len(self.results) > 2 * WINDOW:
            self.results = {result.lease: result for result in latest(self.results.values())}

    def reveal_program(self, rollout: Rollout) -> None:
        """Let the other islands go on from its program. Called just before it is committed."""
        if rollout.member is not None:
            known = self.elites.get(rollout.island)
            self.elites[rollout.island] = fitter(self.direction, known, rollout.member)

    def choose(self) -> Choice:
        """What to expire and what to ship next. Nothing ships while a group is in training."""
        if self.training or not self.complete:
            return NOTHING
        finished = [Finished(rollout.lease, rollout.oldest_version) for rollout in self.complete.values()]
        running = [*self.running.values(), *self.parked.values()]
        return choose(self.policy, finished, running, learner=self.learner, bound=self.bound, size=self.size)

    def ship(self, leases: tuple[int, ...]) -> int:
        """Take a group out of the buffer into training; its number."""
        self.training = tuple(self.complete.pop(lease) for lease in leases)
        self.groups += 1
        return self.groups

    def end_group(self, version: int, weights: str | None) -> None:
        """The group in training has ended, at learner version `version`."""
        self.training = ()
        self.learner = version
        self.weights = weights or self.weights
