"""A Ray cluster whose nodes are objects of this process. They answer by the protocol of real ones, or lie."""

from collections.abc import Callable
from typing import Any

import anyio

from pace_async.evaluate.base import Evaluation, EvaluationId, EvaluationRequest
from pace_async.evaluate.identities import attempted_once
from pace_async.evaluate.on_ray.cluster import NO_LOG, Actor, ActorLost, Cluster, NodeSeen, Reservation
from pace_async.evaluate.on_ray.frames import StoredValue
from pace_async.evaluate.on_ray.wire import Attached, Known, News, Order, Ready, Sandbox, pace_here

READY = Ready(Sandbox("bubblewrap", ()), "a machine", 1)
ENDED_AT = 1000.0


def answered(request: EvaluationRequest, came: Evaluation) -> Evaluation:
    """What an honest node answers."""
    return attempted_once(request, came, ENDED_AT)


class NodeOfTests(Actor):
    """Honest: every program has the score 7. `most` is the largest number of evaluations at once. Each waits until
    `go` is set."""

    def __init__(self, name: str, known: tuple[Known, ...] = ()) -> None:
        self.name, self._known = name, known
        self.asked: list[EvaluationId] = []
        self.go, self._killed = anyio.Event(), anyio.Event()
        self.inside = self.most = 0

    async def call(self, method: str, *arguments: object) -> Any:
        if self._killed.is_set():
            raise ActorLost("it was killed")
        return await getattr(self, f"_{method}")(*arguments)

    def kill(self) -> None:
        self._killed.set()

    @property
    def killed(self) -> bool:
        return self._killed.is_set()

    def answer(self, request: EvaluationRequest) -> object:
        """What it answers to a request."""
        return answered(request, Evaluation("ok", 7.0, 0.1))

    async def _evaluate(self, request: EvaluationRequest) -> object:
        self.asked.append(request.id)
        self.inside += 1
        self.most = max(self.most, self.inside)
        await self.go.wait()
        self.inside -= 1
        return self.answer(request)

    async def _pace(self) -> str:
        return pace_here()

    async def _open(self, order: Order, files: object) -> object:
        return READY

    async def _attach(self, order: Order) -> object:
        return Attached(READY, self._known)

    async def _result(self, identity: EvaluationId) -> object:
        return await self._news()

    async def _alive(self) -> bool:
        return True

    async def _news(self) -> News:
        await self._killed.wait()
        raise ActorLost("it was killed")

    async def _ended(self, identity: EvaluationId) -> None:
        return None

    async def _cancel(self, identity: EvaluationId) -> None:
        return None

    async def _close(self) -> None:
        return None


class ClusterOfTests(Cluster):
    """`free` are its nodes, with their CPUs. `made` makes the actor of a node by its name, and `there` are actors of an
    earlier process."""

    def __init__(
        self, free: dict[str, float], made: Callable[[str, str], NodeOfTests], there: tuple[NodeOfTests, ...] = ()
    ) -> None:
        super().__init__("127.0.0.1:1", 60.0, {}, NO_LOG)
        self._free, self._made, self._there = free, made, there
        self.started: list[tuple[str, Reservation]] = []

    async def nodes(self) -> list[NodeSeen]:
        return [NodeSeen(node, f"host-{node}", {"CPU": cpus}) for node, cpus in self._free.items()]

    async def named(self, prefix: str) -> list[Actor]:
        return [actor for actor in self._there if actor.name.startswith(prefix) and not actor.killed]

    async def put(self, value: object) -> StoredValue:
        return StoredValue("value")

    async def start(self, name: str, node: NodeSeen, reserved: Reservation) -> Actor:
        self.started.append((node.id, reserved))
        return self._made(name, node.id)

    async def back(self) -> None:
        return None
