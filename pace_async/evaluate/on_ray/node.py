"""The actor of a node: the evaluator of that machine, with its sandbox, its warm parents and its scorers.

Invariants: an identity is evaluated once, as by every evaluator, so a call may be made again when its answer was lost.
An actor from which no runtime has asked anything for `evaluation.ray_goes_on_s` ends its programs. After
`evaluation.ray_keeps_s` it ends itself, and Ray takes back what it reserved. The evaluator has an event loop and a
thread of its own, because Ray's loop may cancel tasks in its own way.
"""

import asyncio
import os
import platform
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal

from pace_async.errors import UsageError
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import Evaluation, EvaluationId, EvaluationRequest
from pace_async.evaluate.identities import ENDED_KEPT
from pace_async.evaluate.local import LocalEvaluator
from pace_async.evaluate.on_ray.wire import (
    Attached,
    Known,
    Looked,
    News,
    Order,
    Ready,
    Refused,
    Sandbox,
    TaskFile,
    fingerprint,
    machine_here,
    pace_here,
    write_task,
)
from pace_async.evaluate.resources import NO_RUN, OfRun
from pace_async.evaluate.sandbox import leftovers
from pace_async.evaluate.sandbox.selfcheck import describe, pick_tier
from pace_async.evaluate.sandbox.tiers import Tier
from pace_async.gpus import find_cards, in_words

T = TypeVar("T")
LAST_S = 30.0
"""How long the processes of an evaluator may take to end."""
UNOPENED_S = 600.0
"""How long an actor waits for its first order."""
LOG_BYTES = 1 << 16
"""The most of the evaluator's output that is reported at once."""


class NodeEvaluator:
    """Ray makes one on each node. Its methods are called over the network."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._portal: BlockingPortal = self._stack.enter_context(start_blocking_portal())
        self._evaluator: LocalEvaluator | None = None
        self._serving: Future[Any] | None = None
        self._closed, self._something = self._portal.call(anyio.Event), self._portal.call(anyio.Event)
        self._said: list[tuple[str, str]] = []
        self._log: Path | None = None
        self._told_bytes = 0
        self._order: Order | None = None
        self._ready: Ready | None = None
        self._asked: dict[EvaluationId, str] = {}
        self._heard = time.monotonic()
        self._goes_on_s = self._keeps_s = UNOPENED_S
        self._limits_changed = self._portal.call(anyio.Event)
        self._portal.start_task_soon(self._watch)

    async def pace(self) -> str:
        return pace_here()

    async def alive(self) -> bool:
        """True, from the loop in which evaluations run."""
        return await self._inside(self._alive)

    async def look(self, name: str, unsafe: bool) -> Looked:
        """What the self-check finds on this node, which has this name."""
        try:
            tier: Tier = await self._inside(pick_tier, unsafe)
        except UsageError as error:
            return Looked(name, False, str(error), "apt install bubblewrap")
        began = _environment_at_start()
        cards = in_words(find_cards(environment=began), began)
        return Looked(name, True, f"{describe(tier)}; {machine_here()}, {cards}", tier.remedy)

    async def open(self, order: Order, files: Sequence[TaskFile]) -> Ready | Refused:
        """Make the evaluator. It stays until `close`."""
        try:
            self._serving, ready = await asyncio.to_thread(self._portal.start_task, self._serve, order, files)
        except UsageError as error:
            return Refused(str(error).rstrip("."))
        return ready

    async def attach(self, order: Order) -> Attached | Refused:
        """For another process of the run: what this actor has, if it evaluates what the order is for."""
        return await self._inside(self._attach, order)

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """See `Evaluator.submit` and `Evaluator.result`."""
        return await self._inside(self._evaluate, request)

    async def result(self, identity: EvaluationId) -> Evaluation:
        """See `Evaluator.result`."""
        return await self._inside(self._open.result, identity)

    async def ended(self, identity: EvaluationId) -> Evaluation | None:
        """The result of an evaluation, if it has ended."""
        return await self._inside(self._result_of, identity)

    async def cancel(self, identity: EvaluationId) -> None:
        """See `Evaluator.cancel`."""
        await self._inside(self._open.cancel, identity)

    async def news(self) -> News:
        """Wait until there is something to report."""
        return await self._inside(self._news)

    async def close(self) -> None:
        """End the evaluations and all processes."""
        serving, self._serving = self._serving, None
        if serving is not None:
            await self._inside(self._close)
            await asyncio.wrap_future(serving)

    @property
    def _open(self) -> LocalEvaluator:
        assert self._evaluator is not None, "it is opened first"
        return self._evaluator

    async def _inside(self, function: Callable[..., Awaitable[T]], *arguments: object) -> T:
        self._heard = time.monotonic()
        return await asyncio.wrap_future(self._portal.start_task_soon(function, *arguments))

    async def _alive(self) -> bool:
        return True

    def _heed(self, order: Order) -> None:
        """The limits of an order count from now on: to begin may have taken longer than they are."""
        self._order, self._heard = order, time.monotonic()
        self._goes_on_s, self._keeps_s = order.evaluation.ray_goes_on_s, order.evaluation.ray_keeps_s
        self._limits_changed.set()
        self._limits_changed = anyio.Event()

    async def _attach(self, order: Order) -> Attached | Refused:
        if self._order is None or self._ready is None or not order.same_work(self._order):
            return Refused("it evaluates something else")
        slots = self._order.evaluation.slots
        self._heed(order.with_slots(slots))
        known = self._open.known()
        self._asked = {identity: digest for identity, digest in self._asked.items() if identity in known}
        listed = tuple(
            Known(evaluation_id, digest, known[evaluation_id] is not None)
            for evaluation_id, digest in self._asked.items()
        )
        return Attached(self._ready, listed)

    async def _result_of(self, identity: EvaluationId) -> Evaluation | None:
        return self._open.known().get(identity)

    async def _watch(self) -> None:
        """End the programs, and then this process, when no runtime has asked for so long."""
        while (left := self._seconds_left(self._keeps_s)) > 0:
            if (goes_on := self._seconds_left(self._goes_on_s)) <= 0 and self._evaluator is not None:
                for identity in self._evaluator.pending():
                    await self._evaluator.cancel(identity)
            with anyio.move_on_after(min(left, goes_on) or left):
                await self._limits_changed.wait()
        self._closed.set()
        if self._serving is not None:
            with anyio.move_on_after(LAST_S):
                await asyncio.wrap_future(self._serving)
        os._exit(0)

    def _seconds_left(self, seconds: float) -> float:
        return max(0.0, self._heard + seconds - time.monotonic())

    async def _close(self) -> None:
        self._closed.set()

    async def _serve(
        self, order: Order, files: Sequence[TaskFile], *, task_status: TaskStatus[Ready | Refused]
    ) -> None:
        with tempfile.TemporaryDirectory(prefix=leftovers.prefix()) as name:
            folder, self._log = Path(name) / "task", Path(name) / "scorer.log"
            tier = await pick_tier(order.evaluation.unsafe_no_sandbox)
            own = Sandbox.of(tier)
            if order.sandbox is not None and (weaker := own.weaker_than(order.sandbox)):
                raise UsageError(weaker)
            task = write_task(order, files, folder)
            run = OfRun(taken=order.taken) if platform.node() == order.host else NO_RUN
            async with open_evaluator(
                task, order.evaluation, tier=tier, log=self._log, say=self._say, run=run
            ) as self._evaluator:
                scorers = self._evaluator.parts.scorers
                if scorers is not None and scorers.timed and machine_here() != order.machine:
                    raise UsageError(
                        f"its scores are times, and it is another class of machine ({machine_here()}) than the "
                        f"runtime's ({order.machine})"
                    )
                self._heed(order)
                self._ready = Ready(own, machine_here(), os.getpid())
                task_status.started(self._ready)
                await self._closed.wait()

    async def _evaluate(self, request: EvaluationRequest) -> Evaluation:
        await self._open.submit(request)
        self._asked[request.id] = fingerprint(request)
        if len(self._asked) > 2 * ENDED_KEPT:
            known = self._open.known()
            self._asked = {identity: digest for identity, digest in self._asked.items() if identity in known}
        try:
            return await self._open.result(request.id)
        finally:
            if self._log_size() > self._told_bytes:
                self._something.set()

    async def _say(self, kind: str, detail: str) -> None:
        self._said.append((kind, detail))
        self._something.set()

    async def _news(self) -> News:
        await self._something.wait()
        self._something = anyio.Event()
        messages, self._said = tuple(self._said), []
        return News(messages, self._new_output())

    def _new_output(self) -> bytes:
        if self._log is None or not self._log.exists():
            return b""
        with self._log.open("rb") as stream:
            stream.seek(self._told_bytes)
            output = stream.read(LOG_BYTES)
        self._told_bytes += len(output)
        if self._log_size() > self._told_bytes:
            self._something.set()
        return output

    def _log_size(self) -> int:
        return self._log.stat().st_size if self._log is not None and self._log.exists() else 0


def _environment_at_start() -> Mapping[str, str]:
    """The variables with which this process was started. A node can be set to hide its cards from actors that reserve
    none (RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO), and Ray changes CUDA_VISIBLE_DEVICES for that."""
    try:
        variables = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return os.environ
    pairs = (variable.partition(b"=") for variable in variables if variable)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
