"""The actors of a run: one on each node that may evaluate, with slots, started anew when one was lost.

Invariants: no more evaluations are with an actor than it has slots, and all actors together have at most
`evaluation.slots`. A slot of an actor that was lost is given to nobody. A node that must not evaluate is told by name,
once, and asked no more. An actor that has stopped answering is ended before another takes its place.
"""

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import anyio
from anyio.abc import TaskGroup, TaskStatus

from pace_async.children import wait_silent
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.evaluate.base import Needs
from pace_async.evaluate.on_ray.cluster import Actor, ActorLost, Cluster, NodeSeen, Unanswered
from pace_async.evaluate.on_ray.node import NodeEvaluator
from pace_async.evaluate.on_ray.wire import News, Order, Ready, Refused, pace_here
from pace_async.evaluate.sandbox.verdict import one_line

LOOK_S = 5.0
"""Between two looks at the nodes of the cluster: Ray tells nobody of new ones."""
ASK_AGAIN_S = 1.0
RESTART_S = 1.0
LONGEST_RESTART_S = 60.0
CLOSE_S = 15.0
Say = Callable[[str, str], Awaitable[None]]


@dataclass(eq=False, slots=True)
class Placed:
    """An actor that evaluates on a node. `why` says how it was lost."""

    node: NodeSeen
    actor: Actor
    ready: Ready
    alive: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run wants of a cluster: its name there, how many slots at most, what each needs, how long a node may take
    to answer and an actor to be silent, and where faults and the output of the task's evaluator go."""

    run: str
    slots: int
    needs: Needs
    timeout_s: float
    hung_s: float
    say: Say | None = None
    log: Path | None = None


class _NodeRefused(Exception):
    """A node must not evaluate for this run."""


def shares(free: Mapping[str, Mapping[str, float]], most: int, needs: Needs) -> dict[str, int]:
    """How many slots each node gets, at least one, of at most so many: dealt in turn, so that the nodes are used
    evenly. `free` are the resources of each node that nobody has reserved."""
    room: dict[str, int] = {}
    for node, resources in free.items():
        fits = int(resources.get("CPU", 0.0) / needs.cpus + 1e-9)
        room[node] = min(fits, int(resources.get("GPU", 0.0) / needs.gpus + 1e-9)) if needs.gpus else fits
    dealt = dict.fromkeys(room, 0)
    while sum(dealt.values()) < most and any(dealt[node] < room[node] for node in room):
        for node in room:
            if dealt[node] < room[node] and sum(dealt.values()) < most:
                dealt[node] += 1
    return {node: slots for node, slots in dealt.items() if slots}


class Fleet:
    """Use as an async context manager. Entering waits until each node evaluates, was refused, or was too slow, and
    raises UsageError if none evaluates."""

    def __init__(self, cluster: Cluster, order: Order, files: Any, wanted: Wanted) -> None:
        self._cluster, self._order, self._files, self._wanted = cluster, order, files, wanted
        self._tasks: TaskGroup | None = None
        self._limiter = anyio.CapacityLimiter(0)
        self._free: list[Placed] = []
        self._slots: dict[str, int] = {}
        self._mark = secrets.token_hex(4)
        self.living: list[Placed] = []
        self.refused: dict[str, str] = {}
        self._not_begun: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
        try:
            nodes = await self._cluster.nodes()
            async with anyio.create_task_group() as starting:
                for node, slots in self._dealt(nodes):
                    starting.start_soon(self._tasks.start, self._serve, node, slots)
            if not self.living:
                raise UsageError(self._why_none(nodes))
            self._tasks.start_soon(self._watch)
        except BaseException as error:
            await self._end(error)
            raise _only(error) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end(None)

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[Placed]:
        """A free slot of an actor that was alive a moment ago. Waits for one. Raises InfrastructureFault if there has
        been no actor for as long as a node may take to answer."""
        holder = object()
        await self._acquire(holder)
        while not self._free:  # its actor was lost between the limiter's answer and now
            self._limiter.release_on_behalf_of(holder)
            await self._acquire(holder)
        placed = self._free.pop(0)
        try:
            yield placed
        except ActorLost as lost:
            placed.why = placed.why or str(lost)
            self._withdraw(placed)
            raise
        finally:
            if placed.alive:
                self._free.append(placed)
            self._limiter.release_on_behalf_of(holder)

    async def _acquire(self, holder: object) -> None:
        while True:
            with anyio.move_on_after(self._wanted.timeout_s) as scope:
                await self._limiter.acquire_on_behalf_of(holder)
            if not scope.cancelled_caught:
                return
            if not self.living:
                raise InfrastructureFault("no_node", "no node of the Ray cluster evaluates")

    def _dealt(self, nodes: Sequence[NodeSeen]) -> list[tuple[NodeSeen, int]]:
        """The nodes that have no actor of this run, with their slots."""
        new = [node for node in nodes if node.id not in self._slots and node.id not in self.refused]
        left = self._wanted.slots - sum(self._slots.values())
        dealt = shares({node.id: node.free for node in new}, left, self._wanted.needs)
        self._slots.update(dealt)
        return [(node, dealt[node.id]) for node in new if node.id in dealt]

    def _why_none(self, nodes: Sequence[NodeSeen]) -> str:
        if said := [*self.refused.values(), *self._not_begun.values()]:
            return "No node of the Ray cluster can evaluate: " + "; ".join(said) + "."
        needs = self._wanted.needs
        each = f"{needs.cpus:g} CPU" + (f" and {needs.gpus:g} GPU" if needs.gpus else "")
        return (
            f"The Ray cluster has no room: an evaluation reserves {each}, and its {len(nodes)} "
            f"node{'s have' if len(nodes) != 1 else ' has'} less that is free (ray status)."
        )

    async def _watch(self) -> None:
        """Give each new node an actor."""
        assert self._tasks is not None
        while True:
            await anyio.sleep(LOOK_S)
            for node, slots in self._dealt(await self._cluster.nodes()):
                self._tasks.start_soon(self._serve, node, slots)

    async def _serve(
        self, node: NodeSeen, slots: int, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Keep an actor on a node, as long as the node lives."""
        pause, told = RESTART_S, False
        while True:
            try:
                placed = await self._begun(node, slots)
            except _NodeRefused as refusal:
                self.refused[node.id] = f"node {node.name} is refused: {refusal}"
                del self._slots[node.id]
                await self._say("node_refused", self.refused[node.id])
                task_status.started()
                return
            except ActorLost as lost:
                self._not_begun[node.id] = f"node {node.name}: its evaluator did not start ({lost})"
                await self._say("actor_lost", self._not_begun[node.id])
            else:
                pause = RESTART_S
                self._add(placed, slots)
                if not told:
                    told = True
                    task_status.started()
                await self._kept(placed)
                await self._say("actor_lost", f"node {node.name}: {placed.why}; what ran there is lost")
            if not told:
                told = True
                task_status.started()
            if node.id not in {one.id for one in await self._cluster.nodes()}:
                del self._slots[node.id]
                return
            await anyio.sleep(pause)
            pause = min(2 * pause, LONGEST_RESTART_S)

    async def _begun(self, node: NodeSeen, slots: int) -> Placed:
        """A new actor, ready. Raises _NodeRefused, and ActorLost if it died or was too slow."""
        wanted, name = self._wanted, f"{self._wanted.run}-{node.id[:12]}-{self._mark}"
        cpus, gpus = wanted.needs.cpus * slots, wanted.needs.gpus * slots
        actor = await self._cluster.start(NodeEvaluator, f"{name}-{secrets.token_hex(2)}", node, cpus, gpus)
        try:
            with anyio.fail_after(wanted.timeout_s):
                if (pace := await actor.call("pace")) != pace_here():
                    raise _NodeRefused(f"it has pace-async {pace}, and this run {pace_here()}")
                answer: Ready | Refused = await actor.call("open", self._order.with_slots(slots), self._files)
                if isinstance(answer, Refused):
                    raise _NodeRefused(answer.reason)
        except TimeoutError:
            actor.kill()
            raise ActorLost(f"not within {wanted.timeout_s:.0f} s") from None
        except Unanswered as error:
            actor.kill()
            raise ActorLost(str(error)) from None
        except (RuntimeError, ImportError, AttributeError) as error:  # of a node that has no such pace
            actor.kill()
            raise _NodeRefused(f"this pace-async does not run there ({one_line(str(error))})") from None
        except BaseException:
            actor.kill()
            raise
        return Placed(node, actor, answer)

    def _add(self, placed: Placed, slots: int) -> None:
        self.living.append(placed)
        self._free += [placed] * slots
        self._limiter.total_tokens += slots

    async def _kept(self, placed: Placed) -> None:
        """Return when this actor is lost."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._listen, placed, group.cancel_scope)
                group.start_soon(self._guard, placed, group.cancel_scope)
        finally:
            self._withdraw(placed)

    def _withdraw(self, placed: Placed) -> None:
        """Nobody gets a slot of this actor any more."""
        if placed.alive:
            placed.alive = False
            self.living.remove(placed)
            self._free = [one for one in self._free if one is not placed]
            self._limiter.total_tokens -= self._slots[placed.node.id]

    async def _listen(self, placed: Placed, scope: anyio.CancelScope) -> None:
        """Pass on what the node says until its actor is lost."""
        while True:
            try:
                news: News = await placed.actor.call("news")
            except ActorLost as lost:
                placed.why = placed.why or str(lost)
                scope.cancel()
                return
            except Unanswered:
                await anyio.sleep(ASK_AGAIN_S)
                continue
            if news.log and self._wanted.log is not None:
                with self._wanted.log.open("ab") as stream:
                    stream.write(news.log)
            for kind, detail in news.said:
                await self._say(kind, f"node {placed.node.name}: {detail}")

    async def _guard(self, placed: Placed, scope: anyio.CancelScope) -> None:
        """End an actor that has stopped answering."""

        async def look() -> bool:
            try:
                return await placed.actor.call("alive")
            except (ActorLost, Unanswered):
                return False

        await wait_silent(look, self._wanted.hung_s)
        placed.why = f"its evaluator did not answer for {self._wanted.hung_s:.0f} s and was ended"
        placed.actor.kill()
        scope.cancel()

    async def _say(self, kind: str, detail: str) -> None:
        if self._wanted.say is not None:
            await self._wanted.say(kind, detail)

    async def _end(self, error: BaseException | None) -> None:
        """End every actor, with its processes, within CLOSE_S."""
        with anyio.move_on_after(CLOSE_S, shield=True):
            async with anyio.create_task_group() as closing:
                for placed in self.living:
                    closing.start_soon(_close, placed.actor)
        for placed in self.living:
            placed.actor.kill()
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
            await self._tasks.__aexit__(None, None, None)


async def _close(actor: Actor) -> None:
    try:
        await actor.call("close")
    except (ActorLost, Unanswered):
        return


def _only(error: BaseException) -> BaseException:
    """The first error of a group."""
    if isinstance(error, BaseExceptionGroup):
        return _only(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return error
