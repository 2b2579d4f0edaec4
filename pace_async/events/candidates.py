"""Facts from an experiment to a program and its score."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import fsum
from typing import Any

from pace_async.events.advice import AdvisorCall
from pace_async.events.literals import Kind, Outcome, Reporter, Role
from pace_async.events.notes import IdeasLeft, NotesPage
from pace_async.frozen_values import fast_init

Curve = tuple[tuple[int, float], ...]
"""The values that one evaluation reported while it ran, (step, value) each. Steps increase, values are finite."""
GIVEN_UP = "cancelled"
"""The outcome of a call that the run itself gave up."""
CUT_OFF = "unknown"
"""The outcome of a call that was in flight when the process died. Like one given up it says nothing of the service."""


@dataclass(frozen=True, slots=True)
class ImplementerChosen:
    """The model chosen to implement the experiment of `lease`, whose kind is `kind`. Its index was the highest, from
    the sampled `rate` of gains and the model's expected cost of a rollout in USD (see `search.bandit`)."""

    lease: int
    kind: Kind
    model: str
    rate: float
    usd: float
    at: float


@dataclass(frozen=True, slots=True)
class ImplementerReserved:
    """A call that is about to start may cost up to `cost_usd`. The ImplementerCalled that names the reservation closes
    it. One that stays open was cut off by a crash. `number` counts from 1 within the run. `role`: who asks."""

    number: int
    lease: int
    model: str
    cost_usd: float
    at: float
    role: Role = "implementer"


@dataclass(frozen=True, slots=True)
class ImplementerTry:
    """One answer of a model to one experiment. `number` counts from 1 within the lease. `outcome` is "ok" if the answer
    gave a program, else the kind of the candidate's fault. `detail` is that of the fault, or for "ok" what the author
    corrected in the experiment. `program` is set if the answer gave a
    program's text, even one that does not compile or lacks edits that could not be applied. `answer` holds the model's
    text, if any, where there is no program, and those edits where there is one. `evaluation` is
    the program's outcome if it is shown to the model for another try, else None, and `evaluation_feedback` is what a
    command task's evaluator wrote about it, or what the model is told of its practice."""

    number: int
    model: str
    outcome: str
    detail: str
    program: str | None
    answer: str | None
    evaluation: Outcome | None = None
    evaluation_detail: str = ""
    evaluation_feedback: str | None = None


def deviation_of(tries: Sequence[ImplementerTry]) -> str:
    """What the author of the last program corrected in the experiment, in its words. Empty if it corrected nothing.
    `tries` are oldest first."""
    return next((attempt.detail for attempt in reversed(tries) if attempt.outcome == "ok" and attempt.detail), "")


def was_answered(outcome: str, completion_tokens: int) -> bool:
    """Whether a call got an answer. An agent or a catalogue, which counts no tokens, gave one where it left the program
    as it was or did not implement the experiment."""
    return outcome in ("ok", "unchanged", "not_implemented") or completion_tokens > 0


@dataclass(frozen=True, slots=True)
class ImplementerCalled:
    """One call of an implementer, or of an advisor that is asked over the network, or one for a page of notes or a
    pool of ideas (`role`), charged with or without an answer. `cost_usd` ≥ 0. `outcome` is "ok", the kind of the
    candidate's fault, or the service's failure. If it is unknown whether the provider charged (a hang, a cut stream, a
    crash), `cost_usd` is the whole reservation. `tried` is the implementer's answer if there is one to keep,
    `answered` the advisor's, `notes` the page, `left` what became of the pool. `lease` of these two is the newest one
    that the model knew."""

    lease: int
    model: str
    outcome: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    seconds: float
    at: float
    reservation: int | None = None
    tried: ImplementerTry | None = None
    role: Role = "implementer"
    answered: AdvisorCall | None = None
    notes: NotesPage | None = None
    left: IdeasLeft | None = None

    @property
    def got_answer(self) -> bool | None:
        """Whether the service answered, be it with something that cannot be used. None for a call that the run gave up
        itself, as at its end, or by dying."""
        if self.outcome in (GIVEN_UP, CUT_OFF):
            return None
        return self.tried is not None or was_answered(self.outcome, self.completion_tokens)


@dataclass(frozen=True, slots=True)
class TryEvaluated:
    """The program of try `number` failed, and the implementer is shown the failure and asked again. The last try's
    program has its Evaluated instead."""

    lease: int
    number: int
    outcome: Outcome
    detail: str
    seconds: float
    at: float
    feedback: str | None = None


@dataclass(frozen=True, slots=True)
class ImplementerChecked:
    """One tiny call at the process's start, which proved that a model answers with the given key. `role`: who will ask
    it."""

    model: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    seconds: float
    at: float
    role: Role = "implementer"


@dataclass(frozen=True, slots=True)
class FreshScore:
    """One try of a claimed new best on the instances of a fresh seed. The seeds are secret: `seed` is the number of the
    run's seed, from 1, or −1, −2 … in runs that began before seeds were secret. `score` is None unless `outcome` is ok.
    `own_score` is the score of the task's own program on the same instances, None if it has none. `held`: whether this
    try confirms the claim. `metrics`, and those of the own program, are kept in a task with several objectives, else
    None."""

    seed: int
    claimed: float
    outcome: Outcome
    score: float | None
    own_score: float | None
    held: bool
    seconds: float
    metrics: Mapping[str, float] | None = None
    own_metrics: Mapping[str, float] | None = None

    def as_json(self) -> dict[str, Any]:
        """Its fields, without metrics where there are none."""
        return {name: value for name, value in asdict(self).items() if "metrics" not in name or value is not None}


@fast_init
@dataclass(frozen=True, slots=True)
class EvaluationAttempted:
    """One attempt to evaluate the program of `lease` (0: the task's own program) in `stage` of the cascade, or in the
    full evaluation. `fresh` is 0 for the hidden instances, else the number of the fresh seed. `attempt` counts from 1
    within (lease, stage, fresh). `seconds` is the time in the sandbox, `queue_seconds` the wait for a slot before it.
    Both are 0 if nothing ran. `accepted`: its outcome became the result. An attempt that is not accepted is followed by
    a retry after an infrastructure failure, or by a second run alone. `node` is the name of the machine of a cluster on
    which it ran, and `machine` the class of that machine. Both are None on the runtime's own machine. `curve` holds the
    values that were reported while it ran, None without any. `reported_by` is who reported them: the trusted scorer,
    or under shared trust the task's evaluator beside the program. `score` is kept where a program was evaluated several
    times, else None."""

    lease: int
    stage: str
    fresh: int
    attempt: int
    outcome: Outcome
    seconds: float
    queue_seconds: float
    started_at: float
    ended_at: float
    detail: str
    accepted: bool
    node: str | None = None
    machine: str | None = None
    curve: Curve | None = None
    score: float | None = None
    reported_by: Reporter | None = None

    @property
    def at(self) -> float:
        """End of the attempt."""
        return self.ended_at


@fast_init
@dataclass(frozen=True, slots=True)
class Practised:
    """The program of `lease` (0: the task's own program) ran on practice instances, which score nothing, before it got
    scored ones. A lease's newest is kept: that of its last program, whose text has the digest `program_digest`. `score`
    is None unless `outcome` is ok. `metrics` and `printed`, the end of what the program printed there, are data for
    models, and `printed` is empty unless that is asked for."""

    lease: int
    program_digest: str
    outcome: Outcome
    detail: str
    score: float | None
    metrics: Mapping[str, float]
    printed: str
    seconds: float
    memoised: bool
    at: float


@dataclass(frozen=True, slots=True)
class CascadeScore:
    """A program's result in a cheap stage of its task's cascade. `score` is None unless `outcome` is ok, and is not the
    program's final score. `passed`: it reaches the threshold, in the task's direction, and the program goes on."""

    stage: str
    outcome: Outcome
    score: float | None
    threshold: float
    passed: bool
    seconds: float
    memoised: bool


@dataclass(frozen=True, slots=True)
class CascadeStageEnded:
    """The end of a cheap stage of a rollout's evaluation. `number` counts the stages of the cascade from 1. `program`
    and `mechanism` go on to the next stage. They are None if the rollout ends here: the Evaluated committed with this
    fact then holds them."""

    lease: int
    number: int
    score: CascadeScore
    program: str | None
    mechanism: str | None
    at: float


@dataclass(frozen=True, slots=True)
class Claimed:
    """A program's score on the hidden instances would be a new best, and the next fresh seed will test it. None of the
    `tries` so far has confirmed it. A lease's newest claim is kept until its Evaluated, so that a resume continues with
    the next try. `queue_seconds`, the wait for evaluation slots, has no column: it follows from the lease's attempts.
    """

    lease: int
    island: int
    program: str
    mechanism: str | None
    score: float
    metrics: Mapping[str, float]
    seconds: float
    memoised: bool
    at: float
    tries: tuple[FreshScore, ...] = ()
    queue_seconds: float = 0.0
    feedback: str | None = None


@fast_init
@dataclass(frozen=True, slots=True)
class Evaluated:
    """A rollout is complete. `program` is None if none could be made. `score` is None unless outcome is ok. `mechanism`
    is the implementer's name for the kind of edit, if it has one. `fresh` are the tries on fresh instances after a
    claim to a new best. If none of them held, the outcome is "suspicious". `queue_seconds` is the wait for evaluation
    slots, which `seconds` does not include. It is None if it was not measured. `feedback` is what a command task's
    evaluator wrote for the author of the next program, None if nothing. `gained`, whether it scores better than its
    parent, has no column: it follows from the score of the parent. Nor has `deviation`, what the implementer corrected
    in the experiment: it stands with the try. Nor have `repeated`, all scores on the hidden instances of a program that
    was evaluated there several times: they stand with the attempts."""

    lease: int
    island: int
    parent: int | None
    program: str | None
    program_hash: str | None
    outcome: Outcome
    detail: str
    score: float | None
    reward: float
    metrics: Mapping[str, float]
    seconds: float
    memoised: bool
    mechanism: str | None
    at: float
    fresh: tuple[FreshScore, ...] = ()
    queue_seconds: float | None = None
    feedback: str | None = None
    gained: bool = field(default=False, compare=False)
    deviation: str = field(default="", compare=False)
    repeated: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class MeasuredAgain:
    """A candidate was evaluated again on the hidden instances, as it was chosen as a parent. `scores` are those of all
    its evaluations there, and their mean is its score from now on, behind a barrier once the group of number `group`
    has ended (0: at once). Unless `outcome` is ok it has no score any more. Its reward stays as it was."""

    candidate: int
    outcome: Outcome
    detail: str
    scores: tuple[float, ...]
    group: int
    at: float

    @property
    def score(self) -> float | None:
        """The score of the candidate from now on."""
        return fsum(self.scores) / len(self.scores) if self.outcome == "ok" else None
