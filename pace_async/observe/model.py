"""What a screen shows of a run, as one value.

Invariant: a RunView depends on the facts and sights folded into it (`fold.fold`) and on nothing else, no clock, no
database; whoever needs the present passes `now`. It holds a bounded amount however long the run: counters, the last
few notes and times, and the improvements of the best score.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pace_async.config import Stop
from pace_async.events import CallUnaffordable, GroupShipped, RunHeader
from pace_async.observe.ledger import Ledger

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
    """The best program so far; candidate 0 is the task's own. `after` = candidates complete when it was found; `fresh`
    is its score on the fresh instances that confirmed it, None where it was not tried."""

    candidate: int
    score: float
    island: int
    experiment: str
    after: int
    at: float
    fresh: float | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """One event as a short sentence, already safe to show."""

    at: float
    kind: NoteKind
    text: str


@dataclass(frozen=True, slots=True)
class Leases:
    """Every lease stands in exactly one place; all but `admitted` are disjoint and sum to it with `in_flight`."""

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


@dataclass(frozen=True, slots=True)
class LearnerView:
    """The learning side. `metrics` are those of the last group that had any; `rewards` the mean reward of each of the
    last groups, skipped ones too, oldest first. `version` is the learner's, `published` what the engine serves;
    `rollbacks` counts how often the advisor went back to an earlier version, `shortened` steps that were taken in part,
    `undone` those that would have moved the policy too far even so."""

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
    """A run as of its last folded event; `changed` makes the next one, for which it has no slots. Times are seconds
    since the epoch. `latest` is the note that the last event made, None if it made none. `reserved` is what each call
    in flight may cost, in USD, by reservation; `unaffordable` is the call for which the budget had too little left;
    `unanswered` counts the last implementer calls without an answer in
    between, `models_down` implementers that have been given up for now, `paused` says that all have; `stalled` is why
    nothing can be committed, empty where it can; `failing` are the stages that fail at every try, and why."""

    header: RunHeader
    stop: Stop = field(default_factory=Stop)
    state: str = "starting"
    reason: str = ""
    begun_at: float | None = None
    started_at: float | None = None
    last_at: float = 0.0
    ended_at: float | None = None
    seed_score: float | None = None
    best_known: float | None = None
    best: Best | None = None
    improvements: tuple[tuple[int, float], ...] = ()
    candidates: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict[str, int])
    memoised: int = 0
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
    implementer_calls: int = 0
    reserved: Mapping[int, float] = field(default_factory=dict[int, float])
    unaffordable: CallUnaffordable | None = None
    unanswered: int = 0
    models_down: int = 0
    paused: bool = False
    stalled: str = ""
    failing: Mapping[str, str] = field(default_factory=dict[str, str])
    faults: int = 0
    notes: tuple[Note, ...] = ()
    latest: Note | None = None

    @property
    def groups(self) -> int:
        """Groups consumed, skipped ones too."""
        return self.learner.trained + self.learner.skipped

    def elapsed(self, now: float) -> float:
        """Seconds since this process began to run, up to its end; before that, since it began to start its stages."""
        since = self.begun_at if self.started_at is None else self.started_at
        if since is None:
            return 0.0
        return max(0.0, (self.ended_at if self.ended_at is not None else now) - since)

    def per_minute(self, now: float) -> float | None:
        """Candidates a minute over the last RATE_WINDOW_S seconds, or since the start where that is shorter; None
        before the first. Over the whole run once it has ended."""
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
        """Search threads in each stage; one that has not been heard of waits."""
        counts = dict.fromkeys(STAGES, 0)
        for stage in self.threads.values():
            counts[stage] += 1
        counts["waiting"] += max(0, self.header.threads - len(self.threads))
        return counts

    def best_so_far(self, points: int) -> tuple[float, ...]:
        """The best score after each of `points` equal parts of the candidates so far; shorter while there are fewer
        candidates than points, empty before the first score."""
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


def changed(view: RunView, **fields: Any) -> RunView:
    """`dataclasses.replace` for a view, which is made anew thirty times a candidate: a tenth of its time, because the
    fields are copied as one dictionary. Raises TypeError for a field that a view does not have."""
    if not fields.keys() <= view.__dict__.keys():
        raise TypeError(f"a RunView has no {', '.join(sorted(fields.keys() - view.__dict__.keys()))}")
    made = object.__new__(RunView)
    made.__dict__.update(view.__dict__, **fields)
    return made


def thin(improvements: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
    """Every second one is dropped until there are few enough; the first and the last always stay."""
    while len(improvements) > IMPROVEMENTS_KEPT:
        improvements = (*improvements[:-1:2], improvements[-1])
    return improvements
