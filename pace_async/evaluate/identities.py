"""Evaluations by their identity: each runs once, and each attempt is reported.

Invariants: one identity names one request, which runs once at a time. Submitting it again gives the same evaluation.
Cancelling a waiting task does not end the evaluation for others. Cancelling an evaluation by its identity waits until
all its processes have ended. Not a memo: an entry knows an identity, not equal programs, and the oldest ended
evaluations are forgotten.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import anyio
from anyio.abc import TaskGroup

from pace_async.errors import InfrastructureFault, PaceBug
from pace_async.evaluate.base import (
    CANCELLED,
    Evaluation,
    EvaluationId,
    EvaluationRequest,
    Machines,
    UnknownEvaluation,
)
from pace_async.events import EvaluationAttempted
from pace_async.events.literals import Reporter

ENDED_KEPT = 1000
"""How many evaluations that have ended can still be asked for."""


def _values_of(request: EvaluationRequest) -> dict[str, object]:
    """The values that one identity names, by their plural for an error. The hashes are short and reveal no secret
    seed."""
    seed = hash(request.seed)
    return {"programs": hash(request.program), "seeds": seed, "limits": request.limits, "needs": request.needs}


@dataclass(eq=False, slots=True)
class _Entry:
    """`request` is set until the evaluation has ended, `scope` while it runs, and `result` once it has ended.
    `cancelled`: by its identity. `_stopped` is made by the first task that waits, because most evaluations have no
    second one."""

    asked: dict[str, object]
    request: EvaluationRequest | None
    cancelled: bool = False
    scope: anyio.CancelScope | None = None
    result: Evaluation | Exception | None = None
    _stopped: anyio.Event | None = None

    async def stopped(self) -> None:
        """Wait until the evaluation has ended, or until the task that ran it was cancelled."""
        if self._stopped is None:
            self._stopped = anyio.Event()
        await self._stopped.wait()

    def stop(self) -> None:
        """Wake all tasks that wait."""
        if self._stopped is not None:
            self._stopped.set()
            self._stopped = None


class Identities:
    """Runs `work` once for each identity. `start` runs a function in the background. Without it, the first task that
    waits for an evaluation runs it, and if that task is cancelled the next one starts it again."""

    def __init__(
        self,
        work: Callable[[EvaluationRequest], Awaitable[Evaluation]],
        start: Callable[[Callable[[], Awaitable[None]]], object] | None = None,
    ) -> None:
        self._work, self._start = work, start
        self._entries: dict[EvaluationId, _Entry] = {}
        self._ended: dict[EvaluationId, None] = {}

    def submit(self, request: EvaluationRequest) -> None:
        """See `Evaluator.submit`."""
        values = _values_of(request)
        known = self._entries.get(request.id)
        if known is not None:
            if known.asked != values:
                different = next(name for name in values if values[name] != known.asked[name])
                raise PaceBug(f"{request.id} names two {different}")
            if not isinstance(known.result, Exception):
                return
            self._ended.pop(request.id, None)
        entry = self._entries[request.id] = _Entry(values, request)
        if self._start is not None:
            try:
                self._start(lambda: self._run(entry))
            except BaseException:
                self._forget(request.id, entry)  # otherwise tasks would wait for it without an end
                raise

    async def result(self, identity: EvaluationId) -> Evaluation:
        """See `Evaluator.result`."""
        entry = self._entries.get(identity)
        if entry is None:
            raise UnknownEvaluation(identity)
        while entry.result is None:
            if self._start is not None or entry.scope is not None:
                await entry.stopped()
            else:
                await self._run(entry)
        if isinstance(entry.result, Exception):
            raise entry.result.with_traceback(None)
        return entry.result or CANCELLED

    async def cancel(self, identity: EvaluationId) -> None:
        """See `Evaluator.cancel`."""
        entry = self._entries.get(identity)
        if entry is None:
            return
        entry.cancelled = True
        if entry.scope is not None:
            entry.scope.cancel()
            await entry.stopped()
        entry.result = entry.result or CANCELLED
        entry.stop()
        self._forget(identity, entry)

    def pending(self) -> Sequence[EvaluationId]:
        """See `Evaluator.pending`."""
        return [identity for identity, entry in self._entries.items() if entry.result is None]

    def known(self) -> Mapping[EvaluationId, Evaluation | None]:
        """The evaluations that can be asked for, with the results of those that have ended."""
        return {
            identity: entry.result if isinstance(entry.result, Evaluation) else None
            for identity, entry in self._entries.items()
            if not isinstance(entry.result, Exception)
        }

    async def _run(self, entry: _Entry) -> None:
        request = entry.request
        if entry.result is not None or request is None:
            return
        try:
            with anyio.CancelScope() as entry.scope:
                try:
                    entry.result = await self._work(request)
                except Exception as error:
                    entry.result = error
            if entry.scope.cancelled_caught:
                entry.result = CANCELLED
        finally:
            entry.scope = None
            if self._start is not None or entry.cancelled or entry.result is not None:
                entry.result, entry.request = entry.result or CANCELLED, None
                self._keep(request.id, entry)
            entry.stop()

    def _forget(self, identity: EvaluationId, entry: _Entry) -> None:
        if self._entries.get(identity) is entry:
            del self._entries[identity]
            self._ended.pop(identity, None)

    def _keep(self, identity: EvaluationId, entry: _Entry) -> None:
        if entry.cancelled:
            self._forget(identity, entry)
            return
        self._ended[identity] = None
        while len(self._ended) > ENDED_KEPT:
            oldest = next(iter(self._ended))
            del self._ended[oldest], self._entries[oldest]


@dataclass(slots=True)
class Attempt:
    """One attempt that is made: the time of its request (monotonic), the time of its slot (monotonic, and since the
    epoch), and the seconds of its run, once it has run."""

    asked: float = field(default_factory=time.monotonic)
    began: float | None = None
    started_at: float = field(default_factory=time.time)
    ran: float | None = None

    def begin(self) -> None:
        """It has its slot."""
        self.began, self.started_at = time.monotonic(), time.time()

    @property
    def queue_seconds(self) -> float:
        """The wait for a slot."""
        return (time.monotonic() if self.began is None else self.began) - self.asked

    @property
    def seconds(self) -> float:
        """Those of its run. Without one, the seconds since it began."""
        if self.ran is not None:
            return self.ran
        return time.monotonic() - (self.asked if self.began is None else self.began)


@dataclass(slots=True)
class Attempts:
    """The attempts of one evaluation so far, numbered on from that of its request. `reporter` makes their curves."""

    request: EvaluationRequest
    reporter: Reporter | None = None
    made: list[EvaluationAttempted] = field(default_factory=list[EvaluationAttempted])

    def add(self, evaluation: Evaluation, started_at: float, ended_at: float, *, accepted: bool) -> None:
        identity = self.request.id
        self.made.append(
            EvaluationAttempted(
                lease=identity.lease,
                stage=identity.stage,
                fresh=identity.fresh,
                attempt=identity.attempt + len(self.made),
                outcome=evaluation.outcome,
                seconds=evaluation.seconds,
                queue_seconds=evaluation.queue_seconds,
                started_at=started_at,
                ended_at=ended_at,
                detail=evaluation.detail,
                accepted=accepted,
                curve=evaluation.curve,
                reported_by=self.reporter if evaluation.curve is not None else None,
            )
        )

    def end(self, attempt: Attempt, evaluation: Evaluation, *, accepted: bool) -> Evaluation:
        """Add an attempt that ends now. Returns its result with its wait."""
        evaluation = replace(evaluation, queue_seconds=attempt.queue_seconds)
        self.add(evaluation, attempt.started_at, time.time(), accepted=accepted)
        return evaluation

    def result(self, last: Evaluation) -> Evaluation:
        """The result of the last attempt, with all attempts and their total wait."""
        waited = sum(attempt.queue_seconds for attempt in self.made)
        return replace(last, attempts=tuple(self.made), queue_seconds=waited)


def attempted_once(request: EvaluationRequest, evaluation: Evaluation, ended_at: float) -> Evaluation:
    """An evaluation whose one attempt has just ended."""
    attempts = Attempts(request)
    accepted = evaluation.outcome != "infrastructure_error"
    attempts.add(evaluation, ended_at - evaluation.seconds, ended_at, accepted=accepted)
    return evaluation.with_attempts(tuple(attempts.made))


class IdentifiedEvaluator(ABC):
    """Implements `base.Evaluator`, but for the evaluation itself: looks evaluations up by identity."""

    @abstractmethod
    async def _evaluated(self, request: EvaluationRequest) -> Evaluation:
        """One evaluation, with all its attempts."""

    async def submit(self, request: EvaluationRequest) -> None:
        self._identities.submit(request)

    async def result(self, identity: EvaluationId) -> Evaluation:
        return await self._identities.result(identity)

    async def cancel(self, identity: EvaluationId) -> None:
        await self._identities.cancel(identity)

    async def leave(self, identity: EvaluationId) -> None:
        await self._identities.cancel(identity)

    def pending(self) -> Sequence[EvaluationId]:
        return self._identities.pending()

    def machines(self) -> Machines | None:
        return None

    @cached_property
    def _identities(self) -> Identities:
        return Identities(self._evaluated)


class BackgroundEvaluator(IdentifiedEvaluator):
    """Runs each evaluation in a task of its own. Use as an async context manager. Evaluations that still run at its end
    are cancelled."""

    _tasks: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """No evaluation raises in its task, so an error of the body passes unchanged, without an exception group."""
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
            await self._tasks.__aexit__(None, None, None)

    @cached_property
    def _identities(self) -> Identities:
        return Identities(self._evaluated, self._begin)

    def _begin(self, work: object) -> None:
        assert self._tasks is not None, "it is used as a context manager"
        self._tasks.start_soon(work)  # pyright: ignore[reportArgumentType]


class InTaskEvaluator(IdentifiedEvaluator):
    """For evaluators that are one function. An evaluation returned without attempts counts as one attempt."""

    @abstractmethod
    async def run(self, request: EvaluationRequest) -> Evaluation:
        """One evaluation. Never raises for an action of the program. An InfrastructureFault becomes its outcome."""

    def clock(self) -> float:
        """Seconds since the epoch, for the times of attempts."""
        return time.time()

    async def _evaluated(self, request: EvaluationRequest) -> Evaluation:
        try:
            evaluation = await self.run(request)
        except InfrastructureFault as fault:
            evaluation = Evaluation("infrastructure_error", None, 0.0, str(fault))
        return evaluation if evaluation.attempts else attempted_once(request, evaluation, self.clock())
