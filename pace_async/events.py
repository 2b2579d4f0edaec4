"""The facts of a run, as values.

Each fact is written to the population in one transaction (`Population.commit`) and, after that, shown
(`observe`). Nothing is shown that was not committed; nothing else is ever committed. Ids are small integers
counted from 1 within a run; a lease, its rollout and its candidate share one id, and the task's own initial
program is candidate 0. Version 0 is the advisor as it was given; update u trains version u into u + 1 unless it
is skipped. Times are seconds since the epoch (wall clock) or durations, as the name says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

Purpose = Literal["propose", "assess", "select"]
Action = Literal["backtrack", "crossover"]
Kind = Literal["tuning", "invention", "refinement"]
Closing = Literal["trained", "skipped", "aborted", "expired"]
Outcome = Literal[
    "ok",
    "candidate_error",
    "timeout",
    "out_of_memory",
    "output_overflow",
    "invalid_score",
    "suspicious",
    "infrastructure_error",
    "unparsed",
    "not_implemented",
    "unchanged",
    "below_threshold",
]


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """Completion tokens [start, end) were sampled by weight version `version`."""

    version: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class AdvisorCall:
    """One prompt and one sampled answer. `logprobs[i]` is the log-probability, in nats, at which
    `completion_ids[i]` was sampled (temperature applied); `spans` cover [0, len(completion_ids))."""

    purpose: Purpose
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    spans: tuple[TokenSpan, ...]
    text: str
    seconds: float

    @property
    def oldest_version(self) -> int:
        return min(span.version for span in self.spans)


@dataclass(frozen=True, slots=True)
class IdeaNote:
    """An idea of an island's pool after assessment. `known` is true if it was merged into the idea `number`
    that stood already: the advisor called it known, or it was proposed in the same words."""

    number: int
    description: str
    known: bool


@dataclass(frozen=True, slots=True)
class LeaseOpened:
    """Permission to make one rollout: it may be trained by update `deadline` at the latest. `migrant` is the candidate
    of another island that is to be its parent; None: the island chooses among its own."""

    lease: int
    island: int
    deadline: int
    version: int
    at: float
    migrant: int | None = None


@dataclass(frozen=True, slots=True)
class IdeaTaken:
    """An idea that came from another island: `number` is its number here, `origin` the one it has there."""

    number: int
    description: str
    origin: int


@dataclass(frozen=True, slots=True)
class IslandActed:
    """An island that had stopped improving acted as `lease` opened.

    backtrack: its best program and its ideas are again those of `snapshot` of its history (0 is the oldest), the later
    ideas set aside for `stay` rollouts; `candidate` is that program. crossover: it took in `ideas` of the island
    `partner` as of the end of that one's lease `as_of`, and starts `lease` from the partner's best program,
    `candidate`. Why: `momentum` after `rollouts` since the last action, `progress` in [0, 1] beside that of the best
    other island, `rival` (None where no other had come anywhere), and the `probability` of what was drawn."""

    lease: int
    island: int
    action: Action
    candidate: int
    snapshot: int | None
    stay: int
    partner: int | None
    as_of: int | None
    ideas: tuple[IdeaTaken, ...]
    momentum: float
    rollouts: int
    progress: float
    rival: float | None
    probability: float
    at: float


@dataclass(frozen=True, slots=True)
class Advised:
    """The advisor has decided: the parent it saw, its calls, the ideas, the experiment chosen.

    `experiment` is None where the answer could not be parsed; then `outcome` of the Evaluated that follows is
    "unparsed"."""

    lease: int
    island: int
    parent: int
    calls: tuple[AdvisorCall, ...]
    ideas: tuple[IdeaNote, ...]
    idea: int | None
    experiment: str | None
    at: float


@dataclass(frozen=True, slots=True)
class ImplementerChosen:
    """The model that is to implement the experiment of `lease`, which is of `kind` (see `search.kinds`): its index was
    the highest, for the `rate` of gains that was sampled and the cost of a rollout, in USD, that is expected of it (see
    `search.bandit`)."""

    lease: int
    kind: Kind
    model: str
    rate: float
    usd: float
    at: float


@dataclass(frozen=True, slots=True)
class ImplementerReserved:
    """A call is about to be made and may cost up to `cost_usd`. Closed by the ImplementerCalled that names it; one that
    stays open was cut off by a crash. `number` counts from 1 within the run."""

    number: int
    lease: int
    model: str
    cost_usd: float
    at: float


@dataclass(frozen=True, slots=True)
class ImplementerTry:
    """One answer of a model to one experiment; `number` counts from 1 within the lease. `outcome` is "ok" where a
    program came of it, else the kind of the candidate's fault, with its `detail`. `program` is there where the answer
    made a program's text, even one that does not compile, else `answer` where the model wrote any. `evaluation` is
    what came of the program where the model is shown that and asked again, else None."""

    number: int
    model: str
    outcome: str
    detail: str
    program: str | None
    answer: str | None
    evaluation: Outcome | None = None
    evaluation_detail: str = ""


@dataclass(frozen=True, slots=True)
class ImplementerCalled:
    """One call of an implementer, paid for whether or not a program came of it. `cost_usd` ≥ 0. `outcome` is "ok", the
    kind of the candidate's fault, or how the service failed; where it cannot be known whether the provider charged for
    it (a hang, a cut stream, a crash), `cost_usd` is the whole reservation. `tried` is the answer, where there is one
    that may be kept."""

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


@dataclass(frozen=True, slots=True)
class TryEvaluated:
    """The program of try `number` of a lease failed in a way that is shown to the implementer, which is asked again.
    The program of the last try has its Evaluated."""

    lease: int
    number: int
    outcome: Outcome
    detail: str
    seconds: float
    at: float


@dataclass(frozen=True, slots=True)
class ImplementerChecked:
    """One tiny call that proved, when the process began, that a model answers to the key given."""

    model: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    seconds: float
    at: float


@dataclass(frozen=True, slots=True)
class FreshScore:
    """A program whose score claimed to be a new best, tried on the instances of a fresh `seed`. `score` is None unless
    `outcome` is ok; `own_score` is that of the task's own program on the same instances, None where it has none there.
    `held`: whether this try bears the claim out."""

    seed: int
    claimed: float
    outcome: Outcome
    score: float | None
    own_score: float | None
    held: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class CascadeScore:
    """How a program did in a cheap stage of its task's cascade. `score` is None unless `outcome` is ok, and is not the
    program's own; `passed`: it reaches the threshold, in the task's direction, so that the program goes on."""

    stage: str
    outcome: Outcome
    score: float | None
    threshold: float
    passed: bool
    seconds: float
    memoised: bool


@dataclass(frozen=True, slots=True)
class CascadeStageEnded:
    """A cheap stage of a rollout's evaluation has ended; `number` counts the stages of the cascade from 1. `program`
    and `mechanism` are what goes on to the next, None where the rollout ends with this stage: then they stand in the
    Evaluated that is committed with it."""

    lease: int
    number: int
    score: CascadeScore
    program: str | None
    mechanism: str | None
    at: float


@dataclass(frozen=True, slots=True)
class Claimed:
    """A program's score on the hidden instances would be a new best, and it is about to be tried on the next fresh
    seed; the `tries` so far have not borne it out. The newest of a lease stands until its Evaluated, so that a resume
    goes on with the next try."""

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


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A rollout is complete. `program` is None where none could be made. `score` is None unless outcome is ok.
    `mechanism` is the implementer's name for the kind of edit, where it has one. `fresh` are the tries on fresh
    instances where the score claimed to be a new best; if none of them held, the outcome is "suspicious"."""

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


@dataclass(frozen=True, slots=True)
class GroupShipped:
    """B complete leases leave the buffer to train the learner's version `update` (ids sorted). `number` counts
    groups from 1, skipped ones too. `staleness`, `rewards`, `advantages` match `leases`; advantages are None where a
    branch collapsed, and the group is then skipped before the learner sees it."""

    number: int
    update: int
    leases: tuple[int, ...]
    staleness: tuple[int, ...]
    rewards: tuple[float, ...]
    advantages: tuple[float, ...] | None
    alpha: float
    digest: str
    at: float


@dataclass(frozen=True, slots=True)
class GroupEnded:
    """The group's fate. trained: version becomes update + 1. skipped (collapsed or discarded): version stays.
    The group's leases close with it. `version` is the learner's after it; `weights` the directory that holds it."""

    number: int
    update: int
    leases: tuple[int, ...]
    closing: Closing
    reason: str
    version: int
    weights: str | None
    metrics: Mapping[str, float]
    seconds: float
    at: float


@dataclass(frozen=True, slots=True)
class LeaseAborted:
    """A lease whose rollout died of the infrastructure: closed, not trained."""

    lease: int
    island: int
    kind: str
    detail: str
    at: float


@dataclass(frozen=True, slots=True)
class LeaseReleased:
    """A complete lease that no learner will train (`--objective none`, or expired under `drop`)."""

    lease: int
    closing: Closing
    at: float


@dataclass(frozen=True, slots=True)
class VersionPublished:
    """Every replica that may receive a request serves `version`. `receipt` maps tensor name to digest; `k3` is the
    logprob probe's, against the learner's own weights, None where none was made."""

    version: int
    seconds: float
    paused_seconds: float
    receipt: Mapping[str, str]
    at: float
    k3: float | None = None


@dataclass(frozen=True, slots=True)
class FaultSeen:
    """Something outside failed; `where` names the stage. Never a secret in `detail`."""

    where: str
    kind: str
    detail: str
    lease: int | None
    at: float


@dataclass(frozen=True, slots=True)
class RunStateChanged:
    """running, draining, done, stopped_by_budget, interrupted, gave_up, crashed."""

    state: str
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class SettingChanged:
    """A resume changed a setting. `before` and `after` are JSON."""

    key: str
    before: str
    after: str
    at: float


Fact = (
    LeaseOpened
    | IslandActed
    | Advised
    | ImplementerChosen
    | ImplementerReserved
    | ImplementerCalled
    | ImplementerChecked
    | TryEvaluated
    | CascadeStageEnded
    | Claimed
    | Evaluated
    | GroupShipped
    | GroupEnded
    | LeaseAborted
    | LeaseReleased
    | VersionPublished
    | FaultSeen
    | RunStateChanged
    | SettingChanged
)


@dataclass(frozen=True, slots=True)
class StageChanged:
    """Not a fact but a sight: what a search thread is doing now. Shown, never committed."""

    island: int
    lease: int | None
    stage: Literal["waiting", "advise", "implement", "evaluate"]


@dataclass(frozen=True, slots=True)
class LearnerStageChanged:
    """Not a fact but a sight: what the learning side is doing now."""

    stage: Literal["waiting", "learn", "publish"]


@dataclass(frozen=True, slots=True)
class Starting:
    """Not a fact but a sight: what the run waits for before its search begins."""

    what: str


@dataclass(frozen=True, slots=True)
class Stalled:
    """Not a fact but a sight: nothing can be committed since `at`, because of `reason`. A FaultSeen of the kind
    "database_back" is the first fact after it."""

    reason: str
    at: float


Sight = StageChanged | LearnerStageChanged | Starting | Stalled


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
