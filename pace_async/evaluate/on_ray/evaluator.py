"""The evaluator of a Ray cluster: each program runs on one of its nodes, by that node's own evaluator.

program ─► slot of a node ─► its actor (`node.py`) ─► Evaluation

Invariants: an attempt whose actor was lost is a failure of the machine. It is recorded, the program is evaluated again
as the next attempt, on any node, and it never becomes a result. If an evaluation is given up, its actor is told so by
its identity: Ray itself cancels nothing. An evaluation that an earlier process of the run began is taken over, and an
identity is begun by one actor at a time.
"""

import os
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio

from pace_async import config
from pace_async.errors import InfrastructureFault
from pace_async.evaluate.assemble import Say
from pace_async.evaluate.base import Evaluation, EvaluationId, EvaluationRequest, Machines, Needs
from pace_async.evaluate.identities import Attempts, BackgroundEvaluator
from pace_async.evaluate.on_ray.cluster import NO_LOG, ActorLost, Unanswered, refuse_unless_installed
from pace_async.evaluate.on_ray.connection import address_of, open_cluster
from pace_async.evaluate.on_ray.fleet import Fleet
from pace_async.evaluate.on_ray.placed import ASK_AGAIN_S, PlacedActor, SlotDemand, called
from pace_async.evaluate.on_ray.wire import Order, files_by_value
from pace_async.evaluate.resources import NO_RUN, OfRun
from pace_async.evaluate.sandbox.tiers import Tier
from pace_async.events import EvaluationAttempted
from pace_async.outside import is_bounded
from pace_async.task import Task

CANCEL_S = 30.0
"""How long a node may take to end an evaluation. An actor that takes longer is ended itself."""
BEFORE = "lost before the runtime was started again"
LONGEST_S = 1e10
"""No time since the epoch, and no duration, is longer."""


class RayEvaluator(BackgroundEvaluator):
    """The evaluator of a fleet."""

    def __init__(self, fleet: Fleet, retries: int) -> None:
        self.fleet = fleet
        self._retries = retries
        self._left: set[EvaluationId] = set()

    async def leave(self, identity: EvaluationId) -> None:
        if self.fleet.wanted.outlives:
            self._left.add(identity)
        await super().leave(identity)

    def machines(self) -> Machines:
        return Machines(len(self.fleet.living), self.fleet.slots, self.fleet.busy)

    async def _evaluated(self, request: EvaluationRequest) -> Evaluation:
        """Take over an evaluation of an earlier process, or evaluate, and again if the node was lost."""
        attempts = Attempts(request)
        if (inherited := self.fleet.held.take(request)) is not None:
            for _ in range(request.id.attempt, inherited.identity.attempt):
                now = time.time()
                attempts.add(Evaluation("infrastructure_error", None, 0.0, BEFORE), now, now, accepted=False)
        while True:
            queued_at, start, placed = time.monotonic(), None, None
            try:
                if inherited is not None:
                    start, placed = queued_at, inherited.placed
                    return _after(attempts, await self._on(placed, request, inherited.identity), placed, 0.0)
                async with self.fleet.slot() as placed:
                    start = time.monotonic()
                    numbered = replace(request.id, attempt=request.id.attempt + len(attempts.made))
                    evaluation = await self._on(placed, request, numbered)
                return _after(attempts, evaluation, placed, start - queued_at)
            except (ActorLost, InfrastructureFault) as fault:
                now = time.monotonic()
                began = now if start is None else start
                failure = Evaluation(
                    "infrastructure_error", None, now - began, str(fault), queue_seconds=began - queued_at
                )
            inherited, ended_at = None, time.time()
            attempts.add(failure, ended_at - failure.seconds, ended_at, accepted=False)
            attempts.made[-1] = _at(placed, attempts.made[-1])
            if len(attempts.made) > self._retries:
                return attempts.result(failure)

    async def _on(self, placed: PlacedActor, request: EvaluationRequest, identity: EvaluationId) -> Evaluation:
        """The evaluation by this actor, under this identity. It begins if the actor does not know it. Raises
        ActorLost."""
        try:
            answer: Evaluation = await called(placed, "evaluate", replace(request, id=identity))
            if wrong := why_wrong(answer, identity):
                self.fleet.refuse(placed, wrong)
                raise ActorLost(wrong)
        except ActorLost as lost:
            placed.given_up.append(identity)
            raise ActorLost(f"node {placed.node.name} lost it: {lost}") from None
        except anyio.get_cancelled_exc_class():
            if request.id in self._left:
                placed.left += 1
            else:
                await _cancelled(placed, identity)
            raise
        if not answer.attempts:
            raise ActorLost(f"node {placed.node.name} ended it")
        return answer


def why_wrong(answer: object, identity: EvaluationId) -> str:
    """How an answer contradicts what was asked, or itself. Empty if it does not. An answer is of the identity that was
    asked for, its attempts are numbered on from it, and at most the last of them is accepted. So a node can invent the
    score of a program that it was given, and no other row."""
    if not isinstance(answer, Evaluation):
        return f"it answered with {type(answer).__name__} in place of an evaluation"
    attempts = answer.attempts
    if any((entry.lease, entry.stage, entry.fresh) != identity.series for entry in attempts):
        return "it answered for an evaluation that it was not asked for"
    if [entry.attempt for entry in attempts] != [identity.attempt + number for number in range(len(attempts))]:
        return "it answered for an attempt that it was not asked for"
    if any(entry.accepted for entry in attempts[:-1]):
        return "it answered with two results"
    if attempts and attempts[-1].accepted != (answer.outcome != "infrastructure_error"):
        return "its answer and its attempts contradict each other"
    times = [
        time for entry in attempts for time in (entry.seconds, entry.queue_seconds, entry.started_at, entry.ended_at)
    ]
    if not all(
        _is_number(entry) and 0 <= entry < LONGEST_S for entry in (answer.seconds, answer.queue_seconds, *times)
    ):
        return "it answered with a time that is no time"
    if (answer.outcome == "ok") != _is_number(answer.score) or (answer.outcome != "ok" and answer.score is not None):
        return f"it answered {answer.outcome} with the score {answer.score!r:.40}"
    return ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and is_bounded(value)


async def _cancelled(placed: PlacedActor, identity: EvaluationId) -> None:
    """Return when all processes of this evaluation have ended, with their actor if need be."""
    with anyio.move_on_after(CANCEL_S, shield=True) as scope:
        while True:
            try:
                await placed.actor.call("cancel", identity)
                return
            except ActorLost:
                return
            except Unanswered:
                await anyio.sleep(ASK_AGAIN_S)
    if scope.cancelled_caught:
        placed.actor.kill()


def _after(attempts: Attempts, evaluation: Evaluation, placed: PlacedActor, waited: float) -> Evaluation:
    """What a node found, after the attempts that were lost. The wait for the node's slot is that of its first
    attempt."""
    first, *others = (_at(placed, attempt) for attempt in evaluation.attempts)
    history = (*attempts.made, replace(first, queue_seconds=first.queue_seconds + waited), *others)
    return replace(evaluation, attempts=history, queue_seconds=sum(attempt.queue_seconds for attempt in history))


def _at(placed: PlacedActor | None, attempt: EvaluationAttempted) -> EvaluationAttempted:
    """The attempt, with the node on which it was."""
    return attempt if placed is None else replace(attempt, node=placed.node.name, machine=placed.ready.machine)


@asynccontextmanager
async def open_ray_evaluator(
    task: Task,
    evaluation: config.EvaluationConfig,
    *,
    tier: Tier | None = None,
    log: Path | None = None,
    say: Say | None = None,
    run: OfRun = NO_RUN,
) -> AsyncGenerator[RayEvaluator]:
    """The evaluator of a configuration on a cluster: the one at `evaluation.ray_address` or RAY_ADDRESS, or else one
    that is started on this machine and ends with it. The parameters are those of `open_evaluator`, and `tier` is the
    weakest sandbox that a node may have. The actors carry the name of the run. If it has one, and the cluster does not
    end with this process, evaluations outlive this process for a resume of the run. Raises UsageError if there is no
    such cluster, or if no node may evaluate, and InfrastructureFault if none could be started here."""
    refuse_unless_installed()
    order, files = Order.of(task, evaluation, tier, run.taken), files_by_value(task)
    needs = Needs.of(task.spec)
    async with AsyncExitStack() as stack:
        cpus = max(len(os.sched_getaffinity(0)), round(evaluation.slots * needs.cpus))
        own = log.with_name("ray.log") if log is not None else NO_LOG
        variables = {name: os.environ[name] for name in task.spec.environment.variables if name in os.environ}
        cluster = await stack.enter_async_context(open_cluster(evaluation, cpus=cpus, variables=variables, log=own))
        demand = SlotDemand(
            run=run.name or "pace",
            slots=evaluation.slots,
            needs=needs,
            timeout_s=evaluation.ray_timeout_s,
            silence_s=evaluation.ray_silence_s,
            say=say,
            log=log,
            more=evaluation.ray_resources,
            outlives=bool(run.name and address_of(evaluation)),
            scales=evaluation.ray_scales,
        )
        fleet = await stack.enter_async_context(Fleet(cluster, order, await cluster.put(files), demand))
        yield await stack.enter_async_context(RayEvaluator(fleet, evaluation.retries))
