"""The seam between a program and its score. Only values cross it: no path, no handle, no open file.

An evaluation has an identity, so that it can run on another machine, outlive the task that submitted it, and never run
twice. Most callers need only `evaluate`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Protocol

import anyio

from pace_async.errors import InfrastructureFault
from pace_async.evaluate.pruning import Bar
from pace_async.events import CascadeScore, Curve, EvaluationAttempted, Outcome
from pace_async.frozen_values import fast_init
from pace_async.outside import LARGEST, LONGEST_NAME, MOST_METRICS, is_bounded, sound
from pace_async.task import FULL, PRACTICE, TaskSpec

HIDDEN = 0
"""The instances that score every candidate. Numbers from 1 on are the fresh seeds of a run."""
PRACTICE_SHARE = 0.5
"""Seconds that practice may take, as a share of those of an evaluation."""
SECRET_SEEDS = 1 << 128
"""Seeds from here on are secret: no file, message or program may contain one. Seeds that a user sets are far below."""


def without_secret(text: str, seed: int) -> str:
    """A text of the task's evaluator, with a secret seed in it removed."""
    return text.replace(str(seed), "a fresh seed") if seed >= SECRET_SEEDS else text


@fast_init
@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one evaluation: seconds of wall clock, MiB of memory, bytes on each of its output streams, seconds of
    processor time (by default two more than of wall clock), MiB of files that it writes, and the files and folders that
    it may read besides Python's. Without `address_space` only used memory counts, not reserved memory. `processors` are
    the numbers of those that it may use, where not all, `devices` are the device files of its cards and their driver,
    and `libraries` are folders with that driver's libraries."""

    seconds: float
    memory_mb: int
    output_bytes: int
    processor_s: int | None = None
    scratch_mb: int = 64
    readable: tuple[Path, ...] = ()
    address_space: bool = True
    processors: tuple[int, ...] = ()
    devices: tuple[Path, ...] = ()
    libraries: tuple[Path, ...] = ()

    @property
    def processor_limit_s(self) -> int:
        """Seconds of processor time."""
        return int(self.seconds) + 2 if self.processor_s is None else self.processor_s

    @classmethod
    def of(cls, spec: TaskSpec, stage: str = FULL) -> "Limits":
        """The limits of a task's evaluation, of one stage of its cascade, or of practice."""
        timeout = (
            next((entry.timeout_s for entry in spec.cascade if entry.name == stage), None) if spec.cascade else None
        )
        seconds = spec.timeout_s if timeout is None else timeout
        if stage == PRACTICE:
            seconds = PRACTICE_SHARE * spec.timeout_s
        processor_s = None if spec.cpus is None else int(spec.cpus * seconds) + 2
        return cls(seconds, spec.memory_mb, int(spec.output_mb * (1 << 20)), processor_s)


@dataclass(frozen=True, slots=True)
class Needs:
    """Resources of one evaluation while it runs, besides the memory in its limits."""

    cpus: float = 1.0
    gpus: float = 0.0

    @classmethod
    def of(cls, spec: TaskSpec) -> "Needs":
        """The resources that a task's evaluations need."""
        return cls(float(spec.cpus or 1), spec.gpus if spec.gpus_required else 0.0)


@fast_init
@dataclass(frozen=True, slots=True)
class EvaluationId:
    """Names one evaluation of one run. `lease` is 0 for the task's own program. `fresh` is HIDDEN, or the number of a
    fresh seed. `attempt` counts from 1 within (run, lease, stage, fresh)."""

    run: str
    lease: int
    stage: str = FULL
    attempt: int = 1
    fresh: int = HIDDEN

    @property
    def series(self) -> tuple[int, str, int]:
        """(lease, stage, fresh): attempts are counted within it."""
        return self.lease, self.stage, self.fresh


@fast_init
@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """One program to be scored. `seed` and the stage choose the instances. A seed from SECRET_SEEDS on is secret, so
    no representation of the request contains it. With a `bar` the evaluator listens to what a program's evaluation
    reports, and stops it where that falls below. It is no part of what the identity names."""

    id: EvaluationId
    program: str = field(repr=False)
    seed: int = field(repr=False)
    limits: Limits
    needs: Needs = Needs()
    bar: Bar | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, spec: TaskSpec, identity: EvaluationId, program: str, seed: int, bar: Bar | None = None
    ) -> "EvaluationRequest":
        """A request with the task's limits for the stage, and its needs."""
        return cls(identity, sound(program), seed, Limits.of(spec, identity.stage), Needs.of(spec), bar)

    @property
    def lease(self) -> int:
        """The rollout that the program belongs to."""
        return self.id.lease

    @property
    def stage(self) -> str:
        """A stage of the task's cascade, FULL or PRACTICE."""
        return self.id.stage


@fast_init
@dataclass(frozen=True, slots=True)
class Evaluation:
    """`score` is None unless `outcome` is ok. `metrics` are finite. `seconds` is wall clock, measured outside the
    candidate. `queue_seconds` is the wait for a slot, which `seconds` does not count. `detail` is one short printable
    line for a person and for the advisor. `memoised`: an equal program was scored before, and nothing was run.
    `cascade` are the earlier cheap stages. If the outcome is below_threshold, the last of them was not passed.
    `evaluator_error` gives the place of an error in the task's evaluator itself, for a person and never for a model.
    `attempts` are those that led to this result and are not recorded yet, in their order. `feedback` is text for the
    author of the next program: of a command task's evaluator, or printed in practice. It is data, at most some thousand
    characters. `curve` is what the evaluation reported while it ran: data too."""

    outcome: Outcome
    score: float | None
    seconds: float
    detail: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    memoised: bool = False
    cascade: tuple[CascadeScore, ...] = ()
    evaluator_error: str = ""
    queue_seconds: float = 0.0
    attempts: tuple[EvaluationAttempted, ...] = ()
    feedback: str = ""
    curve: Curve | None = None

    def with_attempts(self, attempts: tuple[EvaluationAttempted, ...]) -> "Evaluation":
        """The same evaluation as the result of these attempts."""
        return Evaluation(  # `replace` takes twice as long
            self.outcome,
            self.score,
            self.seconds,
            self.detail,
            self.metrics,
            self.memoised,
            self.cascade,
            self.evaluator_error,
            self.queue_seconds,
            attempts,
            self.feedback,
            self.curve,
        )


CANCELLED = Evaluation("infrastructure_error", None, 0.0, "cancelled")
"""The error of tasks that wait for an evaluation when another task cancels it."""


@dataclass(frozen=True, slots=True)
class Machines:
    """How many machines evaluate, how many slots they have, and in how many of these a program is."""

    count: int
    slots: int
    busy: int


class UnknownEvaluation(KeyError):
    """No evaluation is known by an identity. A restarted runtime that asks for one counts its attempt as lost."""

    def __init__(self, identity: EvaluationId) -> None:
        super().__init__(identity)
        self.identity = identity

    def __str__(self) -> str:
        key = self.identity
        fresh = f", fresh seed {key.fresh}" if key.fresh != HIDDEN else ""
        return (
            f"No evaluation is known by run {key.run}, lease {key.lease}, stage {key.stage}, attempt {key.attempt}"
            f"{fresh}: it was not submitted, was cancelled, or ended long ago."
        )


class EvaluationLost(InfrastructureFault):
    """The machine failed an evaluation. `attempts` are not recorded yet. Commit them with the fault, so that a process
    that is killed after each commit still makes progress."""

    def __init__(self, detail: str, attempts: Sequence[EvaluationAttempted]) -> None:
        super().__init__("evaluation", detail)
        self.attempts = tuple(attempts)


class Evaluator(Protocol):
    """Scores programs, each in a sandbox. Never raises for an action of a candidate: the outcome says it, and
    infrastructure_error means that the candidate is not to blame."""

    async def submit(self, request: EvaluationRequest) -> None:
        """Begin an evaluation. Does not wait for a slot. An identity that is known already is not submitted again, also
        if its evaluation has ended with a result. Raises PaceBug if the identity names another program or seed, or
        other limits."""
        ...

    async def result(self, identity: EvaluationId) -> Evaluation:
        """Wait for an evaluation that any task has submitted. Any number of tasks may wait, and may ask again later. A
        task that stops waiting ends nothing. Raises UnknownEvaluation, and UsageError if the task's evaluator cannot be
        used."""
        ...

    async def cancel(self, identity: EvaluationId) -> None:
        """End an evaluation, and return when all its processes have ended. Then, or if it had ended, forget it. An
        interrupted attempt is not counted, as after the death of a process, so the same identity may be submitted
        again."""
        ...

    async def leave(self, identity: EvaluationId) -> None:
        """The task that waited for an evaluation was cancelled, because its process ends. Where evaluations outlive
        this process, it goes on, and a resume of the run that submits it again gets its result. Elsewhere it is
        cancelled."""
        ...

    def pending(self) -> Sequence[EvaluationId]:
        """The evaluations that were submitted and have not ended."""
        ...

    def machines(self) -> Machines | None:
        """The machines that evaluate now. None where this machine is the only one."""
        ...


async def evaluate(evaluator: Evaluator, request: EvaluationRequest) -> Evaluation:
    """Submit, wait, and leave the evaluation if the waiting task is cancelled."""
    await evaluator.submit(request)
    try:
        return _bounded(await evaluator.result(request.id))
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await evaluator.leave(request.id)
        raise


def _bounded(evaluation: Evaluation) -> Evaluation:
    """An evaluation that the tables take, whichever evaluator, node or memo it came from."""
    if (evaluation.score is None or is_bounded(evaluation.score)) and all(map(is_bounded, evaluation.metrics.values())):
        if len(evaluation.metrics) <= MOST_METRICS and all(len(name) <= LONGEST_NAME for name in evaluation.metrics):
            return evaluation
        short = ((name, value) for name, value in evaluation.metrics.items() if len(name) <= LONGEST_NAME)
        return replace(evaluation, metrics=dict(islice(short, MOST_METRICS)))
    detail = f"the score or a metric is not between -{LARGEST:g} and {LARGEST:g}"
    attempts = tuple(
        replace(attempt, outcome="invalid_score") if attempt.accepted else attempt for attempt in evaluation.attempts
    )
    return replace(evaluation, outcome="invalid_score", score=None, metrics={}, detail=detail, attempts=attempts)
