"""One stage of a lease, tried until it succeeds, paused while it fails for every lease, or given up in the end.

Invariant: while a stage is paused one try at a time is made, after growing waits, and the waiting leases take turns.
Their results so far, an answer of the advisor or a paid program, are kept and tried again. Every failure is a row, and
so are the beginning and the end of a pause. If the run is ending, a lease does not wait for a paused stage. It stays
open for a resume. `Breaker` is a circuit breaker as values.

Invariant of the breaker: a stage is paused exactly from PAUSES_AFTER failures in a row on, until one try succeeds.
While it is paused, a failure of a try that began before the last failure was counted makes no wait longer. Times are
seconds of a monotonic clock.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import anyio

from pace_async.advise.base import Voided
from pace_async.errors import CandidateFault, GaveUp, InfrastructureFault
from pace_async.evaluate.base import EvaluationLost
from pace_async.events import EvaluationAttempted, FaultSeen
from pace_async.runtime.run.core import Core

PAUSES_AFTER = 3
"""Failures in a row from which on one try at a time is made."""
HELD_TRIES = 4
"""A lease is kept so many times longer in a paused stage, because its own program is then rarely the cause."""

Next = Literal["again", "abort", "give_up"]


@dataclass(frozen=True, slots=True)
class Breaker:
    """`failures` in a row, the last of them counted at `last`. `paused_since` is the time of the pause, None if the
    stage is not paused."""

    failures: int = 0
    last: float = float("-inf")
    paused_since: float | None = None

    @property
    def paused(self) -> bool:
        """Whether one try at a time is made."""
        return self.paused_since is not None

    @property
    def waits(self) -> int:
        """The number, from 1, of the wait before the next try of a paused stage."""
        return max(1, self.failures - PAUSES_AFTER + 1)

    def failed(self, began: float, now: float) -> "Breaker":
        """The breaker after a try that began at `began` has failed at `now`."""
        if self.paused and began < self.last:
            return self
        failures = self.failures + 1
        since = self.paused_since
        if since is None and failures >= PAUSES_AFTER:
            since = now
        return Breaker(failures, now, since)


HEALTHY = Breaker()


def after_failure(breaker: Breaker, tries: int, *, retries: int, now: float, patience_s: float) -> Next:
    """The reaction of a lease after its try number `tries` (from 1) in this stage has failed. `retries` are the further
    tries of a lease in a stage that works for others."""
    if breaker.paused_since is not None:
        if now - breaker.paused_since > patience_s:
            return "give_up"
        return "abort" if tries >= HELD_TRIES * (retries + 1) else "again"
    return "abort" if tries >= retries + 1 else "again"


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage as its faults are reported. `noun` begins a sentence. `remedy` says what the user does. `retried`: a
    lease tries again while others succeed. `told`: every failure has its own row already."""

    name: str
    noun: str
    remedy: str
    retried: bool = True
    told: bool = False


ADVISE = Stage("advise", "The advisor", "logs/engine.log in the run's folder says what its engine did")
ASK = Stage(
    "advise",
    "The advisor",
    "`pace doctor --advisor api:MODEL` asks it one question",
    retried=False,  # as for the implementer
    told=True,
)
IMPLEMENT = Stage(
    "implement",
    "The implementer",
    "`pace doctor --implementer MODEL` asks it one question",
    retried=False,  # a call costs money, and the implementer has retried it already
    told=True,
)
EVALUATE = Stage(
    "evaluate",
    "The evaluation",
    "logs/scorer.log in the run's folder and `pace task check` say why",
)


class LeaseLost(Exception):
    """The lease is to be aborted for `fault`. `facts` are committed with that, so that a process that is killed
    repeatedly still makes progress."""

    def __init__(self, fault: InfrastructureFault, facts: tuple[FaultSeen | EvaluationAttempted, ...]) -> None:
        super().__init__(str(fault))
        self.fault, self.facts = fault, facts


class LeftOpen(Exception):
    """The run is ending and the stage is paused: the lease stays open for a resume."""


@dataclass(slots=True)
class _Gate:
    breaker: Breaker = HEALTHY
    one: anyio.Lock = field(default_factory=anyio.Lock)


@dataclass(slots=True)
class Patience:
    """The state of the stages of one run. `aborted` counts the leases aborted since a candidate was complete."""

    core: Core
    aborted: int = 0
    _gates: defaultdict[str, _Gate] = field(default_factory=lambda: defaultdict(_Gate))

    async def tried(
        self, stage: Stage, lease: int, work: Callable[[], Awaitable[T]], *, ran: Callable[[T], bool] = lambda _: True
    ) -> T:
        """The result of `work`. `ran`: whether the result shows that the stage works (a remembered score does not).
        Raises LeaseLost, LeftOpen, GaveUp, and other errors of `work`."""
        gate, tries = self._gates[stage.name], 0
        retries = self.core.config.faults.retries if stage.retried else 0
        began = 0.0

        async def start_work() -> T:
            nonlocal began
            began = self.core.stages.clock.monotonic()
            return await work()

        while True:
            try:
                if gate.breaker.paused:
                    result = await self._in_turn(gate, start_work)
                else:
                    began = self.core.stages.clock.monotonic()
                    result = await work()
            except InfrastructureFault as fault:
                tries, now = tries + 1, self.core.stages.clock.monotonic()
                facts = self._failed(gate, stage, fault, lease, began, now)
                patience_s = self.core.config.faults.patience_s
                step = after_failure(gate.breaker, tries, retries=retries, now=now, patience_s=patience_s)
                if step == "abort" or isinstance(fault, Voided):
                    raise LeaseLost(fault, facts) from None
                await self.core.record(*facts)
                if step == "give_up":
                    raise GaveUp(
                        f"{stage.noun} failed at every try for {patience_s:.0f} s (the last: {fault}): {stage.remedy}; "
                        "`pace resume` goes on from what is committed."
                    ) from None
                if not gate.breaker.paused:
                    await self._rest(self.core.backoff(tries))
            except CandidateFault:
                await self._succeeded(gate, stage)
                raise
            else:
                if ran(result):
                    await self._succeeded(gate, stage)
                return result

    def aborts(self, fault: InfrastructureFault) -> None:
        """Count one more aborted lease. Raises GaveUp after too many in a row."""
        self.aborted += 1
        most = self.core.config.faults.max_aborted
        if self.aborted >= most:
            raise GaveUp(
                f"{most} rollouts in a row were aborted without a score (the last: {fault}): "
                '`pace db sql RUN "select * from faults"` lists what failed; `pace resume` goes on from what is '
                "committed."
            )

    async def _in_turn(self, gate: _Gate, work: Callable[[], Awaitable[T]]) -> T:
        """While the stage is paused, enter one at a time, each after a wait. Enter at once if it works again."""
        while gate.breaker.paused:
            async with gate.one:
                if gate.breaker.paused:
                    await self._rest(self.core.backoff(gate.breaker.waits))
                    if self.core.stopping is not None:
                        raise LeftOpen
                    return await work()
        return await work()

    async def _rest(self, seconds: float) -> None:
        """Wait so long, or until the run is ending."""
        async with anyio.create_task_group() as tasks:

            async def sleep() -> None:
                await self.core.stages.clock.sleep(seconds)
                tasks.cancel_scope.cancel()

            tasks.start_soon(sleep)
            await self.core.wait_until(lambda: self.core.stopping is not None)
            tasks.cancel_scope.cancel()

    def _failed(
        self, gate: _Gate, stage: Stage, fault: InfrastructureFault, lease: int, began: float, now: float
    ) -> tuple[FaultSeen | EvaluationAttempted, ...]:
        """The facts of a failure: its attempts, itself, and the pause that begins with it."""
        was_paused, at = gate.breaker.paused, self.core.stages.clock.now()
        gate.breaker = gate.breaker.failed(began, now)
        attempts = fault.attempts if isinstance(fault, EvaluationLost) else ()
        itself = () if stage.told else (*attempts, FaultSeen(stage.name, fault.kind, fault.detail, lease, at))
        if was_paused or not gate.breaker.paused:
            return itself
        return *itself, FaultSeen(stage.name, "stage_paused", f"one try at a time ({fault})", None, at)

    async def _succeeded(self, gate: _Gate, stage: Stage) -> None:
        was_paused, gate.breaker = gate.breaker.paused, HEALTHY
        if was_paused:
            now = self.core.stages.clock.now()
            await self.core.record(FaultSeen(stage.name, "stage_back", "it works again", None, now))
