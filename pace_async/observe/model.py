"""The state of a run as a screen shows it, as one value.

Invariant: a RunView depends only on the facts and transient events folded into it (`fold.fold`): no clock, no database.
A caller passes the present time as `now`. The size is bounded for any length of run: counters, the last few notes and
times, the improvements of the best score, and the front.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from pace_async.aims import Costs
from pace_async.baseline import BaselineComparison
from pace_async.config import StopConfig
from pace_async.events import CallUnaffordable, Cause, GroupShipped, NodesSeen, Role, RunHeader
from pace_async.events.causes import CandidateAnswers
from pace_async.observe.ledger import Ledger
from pace_async.observe.roofline import Roofline
from pace_async.population.reading.curves import PruningTotals

RUNNERS_UP = 16
RATE_WINDOW_S = 120.0
TIMES_KEPT = 256
NOTES_KEPT = 64
IMPROVEMENTS_KEPT = 512
GROUPS_KEPT = 64

Stage = Literal["waiting", "advise", "implement", "evaluate"]
STAGES: tuple[Stage, ...] = ("advise", "implement", "evaluate", "waiting")
NoteKind = Literal["seed", "best", "candidate", "group", "fault", "state"]


@dataclass(frozen=True, slots=True)
class Best:
    """The best program so far. Candidate 0 is the task's own. `after` counts the candidates complete when it was found.
    `fresh` is its score on the fresh instances that confirmed it, None if it was not tried on any."""

    candidate: int
    score: float
    island: int
    experiment: str
    after: int
    at: float
    fresh: float | None = None


@dataclass(frozen=True, slots=True)
class OnFront:
    """A program of the front, in a run with several objectives, by its costs (`aims`)."""

    candidate: int
    costs: Costs


@dataclass(frozen=True, slots=True)
class Note:
    """One event as a short sentence, already safe to show."""

    at: float
    kind: NoteKind
    text: str


@dataclass(frozen=True)
class Leases:
    """Counts of leases by state. All but `admitted` are disjoint. Together with `in_flight` they sum to `admitted`."""

    admitted: int = 0
    buffered: int = 0
    training: int = 0
    trained: int = 0
    skipped: int = 0
    aborted: int = 0
    expired: int = 0

    @property
    def open(self) -> int:
        return self.admitted - self.trained - self.skipped - self.aborted - self.expired

    @property
    def in_flight(self) -> int:
        return self.open - self.buffered - self.training


@dataclass(frozen=True)
class LearnerView:
    """The learning side. `metrics` are those of the last group that had any. `rewards` are the mean rewards of the last
    groups, skipped ones too, oldest first. `version` is the learner's, `published` the engine's. `rollbacks` counts
    returns of the advisor to an earlier version, `shortened` the steps taken in part, `undone` the steps undone because
    even a shortened step moved the policy too far."""

    stage: Literal["waiting", "learn", "publish"] = "waiting"
    trained: int = 0
    skipped: int = 0
    alpha: float | None = None
    version: int = 0
    published: int = 0
    step_seconds: float | None = None
    paused_seconds: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    rewards: tuple[float, ...] = ()
    rollbacks: int = 0
    shortened: int = 0
    undone: int = 0


@dataclass(frozen=True)
class RunView:
    """A run as of its last folded event. `changed` makes the next view, so it has no slots, as its parts have none.
    Times are seconds since the epoch. `latest` is the note of the last event, None if it made none. `reserved` is
    the most that each call in flight may cost, in USD, by reservation. `unaffordable` is the call that the rest of
    the budget could not pay. `given_up` counts the calls that this process gave up, `given_up_usd` is what they
    count in the ledger. `unpriced` are the roles with calls whose price is not known. `unanswered` counts the
    implementer calls since the last answer. `models_down` are the models given up for now, and `paused` is true if
    all are. `calls` counts the calls of each role, and `spent` is their cost in USD, checks included. `held`: a
    person holds back new candidates. `stalled` is the reason why nothing can be committed, empty if commits work.
    `nodes` are the machines of a cluster that evaluate, None without a cluster. `failing` maps each stage that
    fails at every try to the reason. `recent_answers`: what became of the answers of the last candidates, oldest
    first. `behind` are the next candidates after the best, at most RUNNERS_UP and the `banned` ones."""

    header: RunHeader
    stop: StopConfig = field(default_factory=StopConfig)
    state: str = "starting"
    reason: str = ""
    begun_at: float | None = None
    started_at: float | None = None
    last_at: float = 0.0
    ended_at: float | None = None
    seed_score: float | None = None
    best_known: float | None = None
    beside: BaselineComparison | None = None
    best: Best | None = None
    behind: tuple[Best, ...] = ()
    banned: tuple[int, ...] = ()
    improvements: tuple[tuple[int, float], ...] = ()
    front: tuple[OnFront, ...] = ()
    candidates: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict[str, int])
    recent_answers: tuple[CandidateAnswers, ...] = ()
    memoised: int = 0
    saved: PruningTotals = field(default_factory=PruningTotals)
    causes: Mapping[Cause, int] = field(default_factory=dict[Cause, int])
    finished_here: int = 0
    times: tuple[float, ...] = ()
    experiments: Mapping[int, str] = field(default_factory=dict[int, str])
    threads: Mapping[int, Stage] = field(default_factory=dict[int, Stage])
    leases: Leases = Leases()
    ledger: Ledger = field(default_factory=Ledger)
    staleness: Mapping[int, int] = field(default_factory=dict[int, int])
    shipped: GroupShipped | None = None
    learner: LearnerView = LearnerView()
    spend_usd: float = 0.0
    calls: Mapping[str, int] = field(default_factory=dict[str, int])
    spent: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(get_args(Role), 0.0))
    reserved: Mapping[int, float] = field(default_factory=dict[int, float])
    unaffordable: CallUnaffordable | None = None
    given_up: int = 0
    given_up_usd: float = 0.0
    unpriced: frozenset[str] = frozenset()
    unanswered: int = 0
    models_down: int = 0
    paused: bool = False
    held: bool = False
    stalled: str = ""
    failing: Mapping[str, str] = field(default_factory=dict[str, str])
    nodes: NodesSeen | None = None
    faults: int = 0
    notes: tuple[Note, ...] = ()
    latest: Note | None = None

    @property
    def scored(self) -> int:
        """Candidates with a score."""
        return self.outcomes.get("ok", 0)

    @property
    def groups(self) -> int:
        """Groups consumed, skipped ones too."""
        return self.learner.trained + self.learner.skipped

    def elapsed(self, now: float) -> float:
        """Seconds since this process began to search, up to its end. Before the search, seconds since it began to start
        its stages."""
        since = self.begun_at if self.started_at is None else self.started_at
        if since is None:
            return 0.0
        return max(0.0, (self.ended_at if self.ended_at is not None else now) - since)

    def busy(self, now: float) -> float | None:
        """The share of the threads' time in this process with a lease, None before anything was timed."""
        until = now if self.ended_at is None else min(now, self.ended_at)
        return self.ledger.utilisation(self.header.threads, self.elapsed(now), until)

    def limits(self, now: float) -> Roofline | None:
        """The bottleneck: see `Ledger.limits`."""
        return self.ledger.limits(self.header, self.busy(now))

    def per_minute(self, now: float) -> float | None:
        """Candidates a minute over the last RATE_WINDOW_S seconds, or since the start if that is shorter. None before
        the first candidate. After the end of the run, over the whole run."""
        if self.started_at is None or not self.times:
            return None
        if self.ended_at is not None:
            elapsed = self.elapsed(now)
            return 60.0 * self.finished_here / elapsed if elapsed > 0 else None
        begin = max(self.started_at, now - RATE_WINDOW_S)
        if len(self.times) == TIMES_KEPT:
            begin = max(begin, self.times[0])
        recent = sum(1 for at in self.times if at >= begin)
        return 60.0 * recent / (now - begin) if now > begin else None

    def by_stage(self) -> Mapping[Stage, int]:
        """Search threads in each stage. A thread without an event counts as waiting."""
        counts = dict.fromkeys(STAGES, 0)
        for stage in self.threads.values():
            counts[stage] += 1
        counts["waiting"] += max(0, self.header.threads - len(self.threads))
        return counts

    def best_so_far(self, points: int) -> tuple[float, ...]:
        """The best score after each of `points` equal parts of the candidates so far. It is shorter while there are
        fewer candidates than points, empty before the first score."""
        if not self.improvements:
            return ()
        steps = max(1, min(points, self.candidates))
        curve: list[float] = []
        index = 0
        for step in range(1, steps + 1):
            after = self.candidates * step / steps
            while index + 1 < len(self.improvements) and self.improvements[index + 1][0] <= after:
                index += 1
            curve.append(self.improvements[index][1])
        return tuple(curve)


def thin(improvements: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
    """Drop every second item until few enough are left. The first and the last always stay."""
    while len(improvements) > IMPROVEMENTS_KEPT:
        improvements = (*improvements[:-1:2], improvements[-1])
    return improvements
