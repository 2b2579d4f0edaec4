"""An experiment becomes a program, and the program gets a score."""

from collections.abc import Mapping
from dataclasses import dataclass

from pace_async.events.words import Kind, Outcome


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
    """A program whose score claimed to be a new best, tried on the instances of a fresh seed. The seeds are secret:
    `seed` says which of the run's it was, from 1, or −1, −2 … where the run began before they were. `score` is None
    unless `outcome` is ok; `own_score` is that of the task's own program on the same instances, None where it has none
    there. `held`: whether this try bears the claim out."""

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
