"""The state of a run: counts, leases, islands, the buffer. Data and questions about it. Nothing here changes it.

Invariants: all of it follows from committed facts, and only `state.apply` changes it, one fact at a time. The only
exception is `claimed`, the facts that are about to be committed, which only the claimed places of the recorder change.
For leases, admitted = closed + open, and open = running + complete + training (+ claimed ones). `complete` is in the
order of completion.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from pace_async.events import (
    Advised,
    AdvisorCall,
    CascadeStageEnded,
    Claimed,
    GroupShipped,
    IdeasLeft,
    ImplementerChosen,
    ImplementerTry,
    MeasuredAgain,
    NotesPage,
    Practised,
    ProgramGiven,
)
from pace_async.fitness import Fitness
from pace_async.objectives import NO_SPREADS, Spreads
from pace_async.search.bandit import WINDOW, Result, latest
from pace_async.search.edit_bandit import Arm, Tries, with_try
from pace_async.search.front import with_point
from pace_async.search.ideas import Pool
from pace_async.search.parents import fitter
from pace_async.search.state import Idea, Island, Member, Rules, VisiblePool
from pace_async.staleness.gate import Lease, deadline_of
from pace_async.staleness.policies import NOTHING, Choice, CompleteRollout, admits, choose, chooses
from pace_async.staleness.rollback import NO_GROUPS, Count, Health
from pace_async.state.memory import Memory
from pace_async.state.steering import NOTHING_SAID, Steering


@dataclass(frozen=True, slots=True)
class Terms:
    """What the configuration says about a run's state: the group size, the staleness bound and its policy, whether
    anything is trained, what is fixed about the islands, and whether the results of a catalogue's edits are counted
    (`edits`), which only an advisor without a model asks for."""

    size: int
    bound: int
    rules: Rules
    trains: bool = True
    policy: str = "pace"
    edits: bool = True


@dataclass(frozen=True)
class Rollout:
    """A complete rollout in the replay buffer, with the pool of its island at that time, and the result of its chosen
    implementer, if one was chosen. `parsed`: all of its answers could be parsed. `cut_off`: its last answer did not end
    within its longest length. `at` is the time of completion. `arm`
    is that of its experiment, None if it is not an edit of a catalogue or edits are not counted. `gained`: it scored
    better than its parent."""

    lease: Lease
    calls: tuple[AdvisorCall, ...]
    reward: float
    island: int
    member: Member | None
    ideas: tuple[Idea, ...] = ()
    result: Result | None = None
    parsed: bool = True
    at: float = 0.0
    arm: Arm | None = None
    gained: bool = False
    cut_off: bool = False

    @cached_property
    def oldest_version(self) -> int:
        """Asked for whenever the learner looks at the buffer."""
        return min(span.version for call in self.calls for span in call.spans)

    @cached_property
    def finished(self) -> CompleteRollout:
        """What a staleness policy is given. Asked for as often."""
        return CompleteRollout(self.lease, self.oldest_version)


def counts_of(group: Iterable[tuple[int, Rollout]]) -> dict[int, Count]:
    """For each version, the number of rollouts and of unparsed ones, given each rollout with the oldest version of its
    tokens."""
    counts: dict[int, tuple[int, int]] = {}
    for version, rollout in group:
        rollouts, unparsed = counts.get(version, (0, 0))
        counts[version] = rollouts + 1, unparsed + (not rollout.parsed)
    return {version: Count(*both) for version, both in counts.items()}


@dataclass(frozen=True, slots=True, order=True)
class Turn:
    """The sort key of a waiting island, the lowest is served first: an island whose lease was aborted keeps its slot,
    then comes the one whose last lease is the oldest. Neither depends on speed, and both can be read from rows."""

    gave_back: bool
    last_lease: int
    island: int


@dataclass(slots=True)
class OpenRollout:
    """An open lease that is not complete, with its results so far. `migrant` is the parent that comes from another
    island, if any. `base` is the parent of an experiment that an earlier process decided, which may be any program that
    the advisor named. It is None in the process that decides. `paid` is USD by model, `tries` what models answered,
    `stages` the cheap stages that ended. `answers` are those of an advisor over the network, paid for one by one, until
    the rollout is advised. `practice` is what the last program did on practice instances. `given` is a program
    that is evaluated as it is. `pinned` is the number of the migrant if a person pinned it."""

    lease: Lease
    island: int
    migrant: Member | None = None
    base: Member | None = field(default=None, compare=False)
    advice: Advised | None = None
    chosen: ImplementerChosen | None = None
    paid: dict[str, float] = field(default_factory=dict[str, float])
    tries: tuple[ImplementerTry, ...] = ()
    stages: tuple[CascadeStageEnded, ...] = ()
    claim: Claimed | None = None
    answers: tuple[AdvisorCall, ...] = ()
    practice: Practised | None = None
    given: ProgramGiven | None = None
    pinned: int | None = None


@dataclass(frozen=True, slots=True)
class Opening:
    """A lease that is about to be committed as open. `arriving` is the pool that its island takes in with it. `entry`
    is that of a given program, 0 without one."""

    lease: Lease
    island: int
    served: int
    migrant: Member | None = None
    arriving: Pool = ()
    entry: int = 0


@dataclass(slots=True)
class VisibleState:
    """What islands see of one another: the best program of each among its complete rollouts (with a bound of 0 those
    whose lease is closed, so under `--sync` as of the last group), the ideas of each as of the newest lease that is
    closed, and the results of choosing implementers and edits in closed ones. `front` is that of the same rollouts in a
    task with several objectives."""

    fitness: Fitness
    elites: dict[int, Member] = field(default_factory=dict[int, Member])
    pools: dict[int, VisiblePool] = field(default_factory=dict[int, VisiblePool])
    results: dict[int, Result] = field(default_factory=dict[int, Result])
    edits: dict[Arm, Tries] = field(default_factory=dict[Arm, Tries])
    front: tuple[Member, ...] = ()

    def copy(self) -> "VisibleState":
        """A copy. Changes of one do not affect the other."""
        tables = dict(self.elites), dict(self.pools), dict(self.results), dict(self.edits)
        return VisibleState(self.fitness, *tables, self.front)

    def show_program(self, island: int, member: Member | None) -> None:
        """The other islands may go on from this program of `island`."""
        if member is not None:
            self.elites[island] = fitter(self.fitness, self.elites.get(island), member)
            self.front = with_point(self.front, member) if member.costs else self.front

    def show(self, rollout: Rollout) -> None:
        """The other islands may see all that this rollout found. The order of calls does not matter."""
        self.show_program(rollout.island, rollout.member)
        pool, lease = self.pools.get(rollout.island), rollout.lease.lease
        if pool is None or pool.lease < lease:
            self.pools[rollout.island] = VisiblePool(lease, rollout.ideas)
        if rollout.arm is not None:
            self.edits = with_try(self.edits, rollout.arm, gained=rollout.gained)
        if rollout.result is not None:
            self.results[lease] = rollout.result
            if len(self.results) > 2 * WINDOW:
                self.results = {result.lease: result for result in latest(self.results.values())}


@dataclass(slots=True)
class Claims:
    """What is claimed at this moment, each by its number: leases, programs and whole rollouts that the other islands
    see already, USD of calls. `named` are the programs that words of people name, each with its island, 0 for the
    task's own: a fold of facts from rows finds them here, too."""

    openings: dict[int, Opening] = field(default_factory=dict[int, Opening])
    programs: dict[int, tuple[int, Member]] = field(default_factory=dict[int, tuple[int, Member]])
    rollouts: dict[int, Rollout] = field(default_factory=dict[int, Rollout])
    money: dict[int, float] = field(default_factory=dict[int, float])
    named: dict[int, tuple[int, Member]] = field(default_factory=dict[int, tuple[int, Member]])


@dataclass(slots=True)
class RunState:
    """Used only on the event loop. `islands` are those that have opened a lease, and in a running process all islands.
    `reserved` is USD by the number of the call in flight, `reservations` the last number given out. `shipped` is the
    group in training. `attempts` has the number of the newest attempt to evaluate a program, by (lease, stage, fresh),
    for leases that are not complete. `notes` are the newest pages by number (see `state.notes`).
    `left` are the ideas that left the pool of an island, the newest last (see `state.pools`).
    `confirmed` has the score of the evaluation that confirmed a candidate, and `repeated` all scores on the hidden
    instances of one that was evaluated there several times. `repeats` counts the evaluations of closed and complete
    leases after the first, and `measured` has the results that count once a group has ended, by candidate.
    `newest_given` is the last entry of the inbox for which a lease was opened. `steering` is what people have said of
    what is there. `lent` and `lent_programs` are used only while a run is rebuilt: the pools, by lease, that later
    leases take in, and the programs, by candidate, that open leases start from."""

    terms: Terms
    islands: dict[int, Island] = field(default_factory=dict[int, Island])
    seed_program: Member | None = None
    learner: int = 0
    served: int = 0
    groups: int = 0
    evaluated: int = 0
    last_lease: int = 0
    spend_usd: float = 0.0
    reserved: dict[int, float] = field(default_factory=dict[int, float])
    reservations: int = 0
    best: Member | None = None
    weights: str | None = None
    spreads: Spreads = NO_SPREADS
    health: Health = NO_GROUPS
    running: dict[int, OpenRollout] = field(default_factory=dict[int, OpenRollout])
    complete: dict[int, Rollout] = field(default_factory=dict[int, Rollout])
    training: tuple[Rollout, ...] = ()
    shipped: GroupShipped | None = None
    attempts: dict[tuple[int, str, int], int] = field(default_factory=dict[tuple[int, str, int], int])
    turns: dict[int, Turn] = field(default_factory=dict[int, Turn])
    notes: dict[int, NotesPage] = field(default_factory=dict[int, NotesPage])
    left: dict[int, tuple[IdeasLeft, ...]] = field(default_factory=dict[int, tuple[IdeasLeft, ...]])
    confirmed: dict[int, float] = field(default_factory=dict[int, float])
    repeated: dict[int, tuple[float, ...]] = field(default_factory=dict[int, tuple[float, ...]])
    repeats: int = 0
    measured: dict[int, MeasuredAgain] = field(default_factory=dict[int, MeasuredAgain])
    newest_given: int = 0
    steering: Steering = NOTHING_SAID
    lent: dict[int, Pool] = field(default_factory=dict[int, Pool])
    lent_programs: dict[int, Member] = field(default_factory=dict[int, Member])
    visible: VisibleState = field(init=False)
    memory: Memory = field(init=False)
    claimed: Claims = field(default_factory=Claims)

    def __post_init__(self) -> None:
        self.visible = VisibleState(self.terms.rules.fitness)
        self.memory = Memory(self.terms.rules.fitness, self.terms.rules.memory)

    @property
    def size(self) -> int:
        """Rollouts in a group."""
        return self.terms.size

    @property
    def bound(self) -> int:
        """Versions that a rollout may be old when it trains."""
        return self.terms.bound

    @property
    def working(self) -> int:
        """Leases that are open, or about to be, and not complete."""
        return len(self.running) + len(self.claimed.openings)

    @property
    def open(self) -> int:
        """Leases that are not closed."""
        return self.working + len(self.complete) + len(self.training)

    def may_admit(self) -> bool:
        """Whether the gate lets one more lease open. Where nothing is trained nothing can become stale."""
        terms = self.terms
        return not terms.trains or admits(
            terms.policy,
            running=self.working,
            held=len(self.complete) + len(self.training),
            lag=self.learner - self.served,
            bound=terms.bound,
            size=terms.size,
        )

    def next_lease(self) -> Lease:
        """The lease that would open now."""
        number = max(self.last_lease, *self.claimed.openings, 0) + 1
        return Lease(deadline_of(self.served, self.terms.bound), number)

    def next_attempt(self, series: tuple[int, str, int]) -> int:
        """The number of the next attempt within (lease, stage, fresh)."""
        return self.attempts.get(series, 0) + 1

    @property
    def newest_entry(self) -> int:
        """The last entry of the inbox for which a lease was opened, or is about to be. 0 before the first."""
        return max(self.newest_given, *(opening.entry for opening in self.claimed.openings.values()), 0)

    def turn_of(self, island: int) -> Turn:
        """Where an island stands in the order of admission."""
        return self.turns.get(island) or Turn(True, 0, island)

    @property
    def seen(self) -> VisibleState:
        """What islands see of one another now, claimed places included. Not to be changed."""
        programs, rollouts = self.claimed.programs, self.claimed.rollouts
        if not programs and not rollouts:
            return self.visible
        visible = self.visible.copy()
        for island, member in programs.values():
            visible.show_program(island, member)
        for rollout in rollouts.values():
            visible.show(rollout)
        return visible

    @property
    def reserved_usd(self) -> float:
        """What the calls in flight may cost, those included that are about to be made."""
        return sum(self.reserved.values()) + sum(self.claimed.money.values())

    @property
    def calls_in_flight(self) -> int:
        """Calls whose cost is not known, those included that are about to be made."""
        return len(self.reserved) + len(self.claimed.money)

    def choose(self) -> Choice:
        """What to expire and what to ship next. Nothing ships while a group is in training."""
        terms = self.terms
        if self.training or not chooses(terms.policy, len(self.complete), terms.size):
            return NOTHING
        finished = [rollout.finished for rollout in self.complete.values()]
        running = [each.lease for each in (*self.running.values(), *self.claimed.openings.values())]
        return choose(terms.policy, finished, running, learner=self.learner, bound=terms.bound, size=terms.size)
