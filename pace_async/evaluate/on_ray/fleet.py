"""The actors of a run: one on each node that may evaluate, with slots, started again when one was lost.

Invariants: no more evaluations are with an actor than it has slots, and all actors together have at most
`evaluation.slots`. A slot of an actor that was lost is given to no caller. A node that must not evaluate is reported by
name, once, and not asked again. An actor that stays silent is ended before another takes its place. Results of an actor
that was silent for a time are late: they are reported, and their attempts stay lost.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Self, cast

import anyio
from anyio.abc import TaskGroup, TaskStatus

from pace_async.children import wait_silent
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.evaluate.base import Evaluation
from pace_async.evaluate.on_ray.attaching import HeldEvaluations, NodeRefused, begin_actor, found_actors
from pace_async.evaluate.on_ray.cluster import ActorLost, Cluster, NodeSeen, Unanswered
from pace_async.evaluate.on_ray.placed import (
    ASK_AGAIN_S,
    PlacedActor,
    SlotDemand,
    called,
    close,
    no_room,
    requested,
    shares,
)
from pace_async.evaluate.on_ray.wire import News, Order

LOOK_S = 5.0
"""Seconds between two looks at the nodes of the cluster: Ray does not report new ones."""
RESTART_S = 1.0
LONGEST_RESTART_S = 60.0
CLOSE_S = 15.0


class Fleet:
    """Use as an async context manager. Entering attaches to the actors of an earlier process of the run, and waits
    until each other node evaluates, was refused, or was too slow. Raises UsageError if none evaluates."""

    def __init__(self, cluster: Cluster, order: Order, files: Any, demand: SlotDemand) -> None:
        self._cluster, self._order, self._files, self.wanted = cluster, order, files, demand
        self._tasks: TaskGroup | None = None
        self._limiter = anyio.CapacityLimiter(0)
        self._free: list[PlacedActor] = []
        self._slots: dict[str, int] = {}
        self.living: list[PlacedActor] = []
        self.refused: dict[str, str] = {}
        self.held = HeldEvaluations()
        self._not_begun: dict[str, str] = {}
        self._waiting = 0
        self._requested = 0

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
        try:
            nodes = await self._cluster.nodes()
            async with anyio.create_task_group() as starting:
                for placed in await self._earlier_actors(nodes):
                    starting.start_soon(self._tasks.start, self._serve, placed.node, placed.slots, placed)
                for node, slots in self._dealt(nodes):
                    starting.start_soon(self._tasks.start, self._serve, node, slots)
            if not self.living and not (self.wanted.scales and await self._scaled()):
                raise UsageError(self._why_none(nodes))
            self._tasks.start_soon(self._watch)
        except BaseException as error:
            await self._end()
            raise _only(error) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    @property
    def slots(self) -> int:
        """Of all actors that are alive."""
        return sum(placed.slots for placed in self.living)

    @property
    def busy(self) -> int:
        """Slots in which a program is."""
        return self.slots - sum(placed.alive for placed in self._free)

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[PlacedActor]:
        """A free slot of an actor that was alive a moment ago. Waits for one. Raises InfrastructureFault if there has
        been no actor for as long as a node may take to answer."""
        holder = object()
        self._waiting += 1
        try:
            await self._acquire(holder)
            while not self._free:  # its actor was lost between the limiter's answer and now
                self._limiter.release_on_behalf_of(holder)
                await self._acquire(holder)
        finally:
            self._waiting -= 1
        placed = self._free.pop(0)
        turn = placed.turn
        try:
            yield placed
        except ActorLost as lost:
            if turn == placed.turn:
                self._withdraw(placed, str(lost))
            raise
        finally:
            if placed.alive and turn == placed.turn:
                self._free.append(placed)
            self._limiter.release_on_behalf_of(holder)

    def refuse(self, placed: PlacedActor, reason: str) -> None:
        """End an actor whose answers are wrong, and use its node no more."""
        self.refused[placed.node.id] = f"node {placed.node.name} is refused: {reason}"
        self._withdraw(placed, reason)
        placed.actor.kill()

    async def _acquire(self, holder: object) -> None:
        while True:
            with anyio.move_on_after(self.wanted.timeout_s) as scope:
                await self._limiter.acquire_on_behalf_of(holder)
            if not scope.cancelled_caught:
                return
            if not self.living:
                raise InfrastructureFault("no_node", self._cluster.why or "no node of the Ray cluster evaluates")

    async def _earlier_actors(self, nodes: Sequence[NodeSeen]) -> list[PlacedActor]:
        """The actors of an earlier process, as many as there may be slots. The others are ended."""
        demand, actors = self.wanted, list[PlacedActor]()
        if not demand.outlives:
            return actors
        pairs = await found_actors(self._cluster, demand.run, self._order, nodes, demand.timeout_s)
        for placed, attached in pairs:
            if placed.node.id in self._slots or sum(self._slots.values()) + placed.slots > demand.slots:
                placed.actor.kill()
                continue
            self._slots[placed.node.id] = placed.slots
            self.held.add(placed, attached.known)
            actors.append(placed)
        return actors

    def _dealt(self, nodes: Sequence[NodeSeen]) -> list[tuple[NodeSeen, int]]:
        """The nodes that have no actor of this run, with their slots."""
        new = [node for node in nodes if node.id not in self._slots and node.id not in self.refused]
        left = self.wanted.slots - sum(self._slots.values())
        dealt = shares({node.id: node.free for node in new}, left, self.wanted.each)
        self._slots.update(dealt)
        return [(node, dealt[node.id]) for node in new if node.id in dealt]

    def _why_none(self, nodes: Sequence[NodeSeen]) -> str:
        if reasons := [*self.refused.values(), *self._not_begun.values()]:
            return "No node of the Ray cluster can evaluate: " + "; ".join(reasons) + "."
        return no_room(self.wanted.each, len(nodes))

    async def _watch(self) -> None:
        """Look at the nodes again and again."""
        while True:
            await anyio.sleep(LOOK_S)
            await self._look(self._waiting)

    async def _look(self, waiting: int) -> None:
        """Ask for room for so many evaluations that wait, give up actors whose nodes are dead, and give each new node
        an actor. A head that was started again knows its nodes, and reports no actor of a dead one as lost."""
        assert self._tasks is not None
        if self.wanted.scales:
            bundles = requested(self.wanted.each, self.slots, waiting, self.wanted.slots)
            if bundles or self._requested:
                await self._cluster.request(bundles)
            self._requested = len(bundles)
        nodes = await self._cluster.nodes()
        node_ids = {node.id for node in nodes}
        for placed in self.living:
            if placed.node.id not in node_ids:
                placed.node_died.set()
        for node, slots in self._dealt(nodes):
            self._tasks.start_soon(self._serve, node, slots)

    async def _scaled(self) -> bool:
        """Ask for room for all slots, and wait for the first one. False if none came in time."""
        with anyio.move_on_after(self.wanted.timeout_s):
            while not self.living:
                await self._look(self.wanted.slots)
                await anyio.sleep(LOOK_S)
        return bool(self.living)

    async def _serve(
        self,
        node: NodeSeen,
        slots: int,
        survivor: PlacedActor | None = None,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Keep an actor on a node, as long as the node lives. `survivor` is one of an earlier process."""
        pause, has_started = RESTART_S, False
        while True:
            try:
                placed, survivor = survivor, None
                if placed is None:
                    placed = await begin_actor(self._cluster, self.wanted, self._order, self._files, node, slots)
            except NodeRefused as refusal:
                self.refused[node.id] = f"node {node.name} is refused: {refusal}"
                del self._slots[node.id]
                await self._say("node_refused", self.refused[node.id])
                if not has_started:
                    task_status.started()
                return
            except ActorLost as lost:
                self._not_begun[node.id] = f"node {node.name}: its evaluator did not start ({lost})"
                await self._say("actor_lost", self._not_begun[node.id])
            else:
                pause = RESTART_S
                self._add(placed)
                if not has_started:
                    has_started = True
                    task_status.started()
                await self._watch_until_lost(placed)
                if node.id in self.refused:
                    await self._say("node_refused", self.refused[node.id])
                    del self._slots[node.id]
                    return
                await self._say("actor_lost", f"node {node.name}: {placed.why}; what ran there is lost")
            if not has_started:
                has_started = True
                task_status.started()
            if node.id not in {other.id for other in await self._cluster.nodes()}:
                del self._slots[node.id]
                return
            await anyio.sleep(pause)
            pause = min(2 * pause, LONGEST_RESTART_S)

    def _add(self, placed: PlacedActor) -> None:
        """Offer the slots of an actor. Those of evaluations of an earlier process are offered when these end."""
        assert self._tasks is not None
        running = [evaluation.identity for evaluation in self.held.of(placed) if not evaluation.known.ended]
        self.living.append(placed)
        placed.alive, placed.why, placed.gone = True, "", anyio.Event()
        self._offer(placed, max(0, placed.slots - len(running)))
        for identity in running[: placed.slots]:
            self._tasks.start_soon(self._offer_after, placed, identity)

    def _offer(self, placed: PlacedActor, slots: int) -> None:
        placed.offered += slots
        self._free += [placed] * slots
        self._limiter.total_tokens += slots

    async def _offer_after(self, placed: PlacedActor, identity: Any) -> None:
        turn = placed.turn
        with suppress(ActorLost, KeyError):
            await called(placed, "result", identity)
        if placed.alive and turn == placed.turn:
            self._offer(placed, 1)

    async def _watch_until_lost(self, placed: PlacedActor) -> None:
        """Return when this actor is lost."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._listen, placed, group.cancel_scope)
                group.start_soon(self._guard, placed, group.cancel_scope)
                await placed.node_died.wait()
                placed.why = placed.why or "the cluster does not have it any more"
                group.cancel_scope.cancel()
        finally:
            self._withdraw(placed, placed.why)

    def _withdraw(self, placed: PlacedActor, reason: str) -> None:
        """No caller gets a slot of this actor any more, and callers that wait for it stop waiting."""
        placed.why = placed.why or reason
        if placed.alive:
            placed.alive = False
            placed.turn += 1
            self.living.remove(placed)
            self._free = [other for other in self._free if other is not placed]
            self._limiter.total_tokens -= placed.offered
            placed.offered = 0
            placed.gone.set()

    async def _listen(self, placed: PlacedActor, scope: anyio.CancelScope) -> None:
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
            if news.log and self.wanted.log is not None:
                with self.wanted.log.open("ab") as stream:
                    stream.write(news.log)
            for kind, detail in news.said:
                await self._say(kind, f"node {placed.node.name}: {detail}")

    async def _guard(self, placed: PlacedActor, scope: anyio.CancelScope) -> None:
        """Give up what is with an actor that is silent, and end one that stays silent."""
        silence_s = self.wanted.silence_s

        async def look() -> bool:
            try:
                return await placed.actor.call("alive")
            except (ActorLost, Unanswered):
                return False

        while True:
            await wait_silent(look, silence_s)
            self._withdraw(placed, f"its evaluator did not answer for {silence_s:.0f} s")
            await self._say("actor_silent", f"node {placed.node.name}: {placed.why}; what ran there is lost")
            await self._cluster.back()
            if not await self._answers(placed):
                placed.why = f"its evaluator did not answer for {2 * silence_s:.0f} s and was ended"
                placed.actor.kill()
                scope.cancel()
                return
            await self._late(placed)
            self._add(placed)
            await self._say("actor_back", f"node {placed.node.name}: its evaluator answers again")

    async def _answers(self, placed: PlacedActor) -> bool:
        """Whether an actor that was silent answers after all."""
        with anyio.move_on_after(self.wanted.silence_s), suppress(ActorLost):
            placed.gone = anyio.Event()
            return await called(placed, "alive")
        return False

    async def _late(self, placed: PlacedActor) -> None:
        """Report what an actor found after its attempts were given up, and end what still runs."""
        unclaimed = [evaluation.identity for evaluation in self.held.of(placed) if not evaluation.known.ended]
        given_up, placed.given_up = [*placed.given_up, *unclaimed], []
        self.held.forget(placed)
        for identity in given_up:
            with suppress(ActorLost, Unanswered):
                result: Evaluation | None = await placed.actor.call("ended", identity)
                await placed.actor.call("cancel", identity)
                which = f"lease {identity.lease}, stage {identity.stage}, attempt {identity.attempt}"
                fresh = f", fresh seed {identity.fresh}" if identity.fresh else ""
                cost = "was ended" if result is None else f"came late, {result.outcome} after {result.seconds:.1f} s"
                await self._say("late_result", f"node {placed.node.name}: {which}{fresh} {cost}; it is not used")

    async def _say(self, kind: str, detail: str) -> None:
        if self.wanted.say is not None:
            await self.wanted.say(kind, detail)

    async def _end(self) -> None:
        """End every actor, with its processes, within CLOSE_S, but for those with evaluations that go on."""
        staying = [placed for placed in self.living if placed.left]
        ending = [placed for placed in self.living if not placed.left]
        with anyio.move_on_after(CLOSE_S, shield=True):
            if self._requested:
                await self._cluster.request([])
            if staying:
                count, minutes = sum(placed.left for placed in staying), self._order.evaluation.ray_goes_on_s / 60
                await self._say(
                    "left_running",
                    f"{count} evaluation{'s go' if count != 1 else ' goes'} on for at most {minutes:.0f} minutes on "
                    f"{', '.join(placed.node.name for placed in staying)}: `pace resume` takes over",
                )
            async with anyio.create_task_group() as closing:
                for placed in ending:
                    closing.start_soon(close, placed)
        for placed in ending:
            placed.actor.kill()
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
            await self._tasks.__aexit__(None, None, None)


def _only(error: BaseException) -> BaseException:
    """The first error of a group."""
    if isinstance(error, BaseExceptionGroup):
        return _only(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return error
