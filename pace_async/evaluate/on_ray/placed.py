"""What a run wants of a cluster, what it has there, and which node gets how many slots."""

import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from pace_async.evaluate.base import EvaluationId, Needs
from pace_async.evaluate.on_ray.cluster import Actor, ActorLost, NodeSeen, Reservation, Unanswered
from pace_async.evaluate.on_ray.wire import Ready

Say = Callable[[str, str], Awaitable[None]]
ASK_AGAIN_S = 1.0


@dataclass(eq=False, slots=True)
class PlacedActor:
    """An actor that evaluates on a node. `offered` are its slots that callers may have. `why` says how it was lost, and
    `gone` is set then. `node_died` is set when the cluster does not have its node any more. An actor that was silent
    can come back: `turn` counts that. `given_up` are the evaluations that were with it when it was lost. `left`:
    evaluations go on there after this process."""

    node: NodeSeen
    actor: Actor
    ready: Ready
    slots: int
    offered: int = 0
    alive: bool = False
    why: str = ""
    turn: int = 0
    gone: anyio.Event = field(default_factory=anyio.Event)
    node_died: anyio.Event = field(default_factory=anyio.Event)
    given_up: list[EvaluationId] = field(default_factory=list[EvaluationId])
    left: int = 0


async def called(placed: PlacedActor, method: str, *arguments: Any) -> Any:
    """What an actor answers, asked again as long as there is no answer. Raises ActorLost, also when the actor has been
    silent for too long."""
    answer: list[Any] = []
    failed: list[Exception] = []
    if placed.gone.is_set():
        raise ActorLost(placed.why)
    async with anyio.create_task_group() as group:

        async def ask() -> None:
            while True:
                try:
                    answer.append(await placed.actor.call(method, *arguments))
                except Unanswered:
                    await anyio.sleep(ASK_AGAIN_S)
                    continue
                except Exception as error:
                    failed.append(error)
                group.cancel_scope.cancel()
                return

        group.start_soon(ask)
        await placed.gone.wait()
        group.cancel_scope.cancel()
    if failed:
        raise failed[0]
    if not answer:
        raise ActorLost(placed.why)
    return answer[0]


async def close(placed: PlacedActor) -> None:
    """Let an actor end its processes, if it can still be reached."""
    with suppress(ActorLost, Unanswered):
        await placed.actor.call("close")


@dataclass(frozen=True, slots=True)
class SlotDemand:
    """What a run wants of a cluster: its name there, how many slots at most, what each needs, how long a node may take
    to answer and an actor to be silent, and where faults and the output of the task's evaluator go. `more` are Ray's
    names of what each slot reserves besides. `outlives`: the actors go on after this process, for a resume. `scales`:
    the cluster's autoscaler is asked for room for what waits."""

    run: str
    slots: int
    needs: Needs
    timeout_s: float
    silence_s: float
    say: Say | None = None
    log: Path | None = None
    more: Mapping[str, float] = field(default_factory=dict[str, float])
    outlives: bool = False
    scales: bool = False

    @property
    def each(self) -> dict[str, float]:
        """What one slot reserves, by Ray's names."""
        return reserved_by_slot(self.needs, self.more)

    def reservation(self, slots: int) -> Reservation:
        """What an actor with so many slots reserves."""
        return Reservation(reserved_by_actor(slots, self.each), self.outlives)


def reserved_by_slot(needs: Needs, more: Mapping[str, float]) -> dict[str, float]:
    """What one slot reserves, by Ray's names."""
    return {"CPU": needs.cpus, **({"GPU": needs.gpus} if needs.gpus else {}), **more}


def reserved_by_actor(slots: int, each: Mapping[str, float]) -> dict[str, float]:
    """What an actor with so many slots reserves. Ray divides no more than one card for an actor, so slots with shares
    of several cards reserve these cards whole."""
    reserved = {name: slots * amount for name, amount in each.items()}
    if 0 < (share := each.get("GPU", 0.0)) < 1:
        cards = math.ceil(slots / _slots_of_a_card(share))
        reserved["GPU"] = min(1.0, slots * share) if cards == 1 else float(cards)
    return reserved


def shares(free: Mapping[str, Mapping[str, float]], most: int, each: Mapping[str, float]) -> dict[str, int]:
    """How many slots each node gets, at least one, of at most so many: given in turn, so that the nodes are used
    evenly. `free` are the unreserved resources of each node, `each` what one slot reserves."""
    room = {
        node: min(_room(name, resources.get(name, 0.0), amount) for name, amount in each.items() if amount > 0)
        for node, resources in free.items()
    }
    dealt = dict.fromkeys(room, 0)
    while sum(dealt.values()) < most and any(dealt[node] < room[node] for node in room):
        for node in room:
            if dealt[node] < room[node] and sum(dealt.values()) < most:
                dealt[node] += 1
    return {node: slots for node, slots in dealt.items() if slots}


def _room(name: str, free: float, amount: float) -> int:
    """For how many slots this resource suffices."""
    if name == "GPU" and amount < 1 <= free:
        return int(free + 1e-9) * _slots_of_a_card(amount)
    return int(free / amount + 1e-9)


def _slots_of_a_card(share: float) -> int:
    return int(1 / share + 1e-9)


def requested(each: Mapping[str, float], has: int, waiting: int, most: int) -> list[dict[str, float]]:
    """What an autoscaler is asked for: the slots that there are and one for each evaluation that waits, at most so
    many, as it compares with the whole cluster. Nothing if none waits."""
    return [dict(each)] * min(has + waiting, most) if waiting else []


def no_room(each: Mapping[str, float], nodes: int) -> str:
    """One sentence about a cluster on which no evaluation has room."""
    needs = " and ".join(f"{amount:g} {name}" for name, amount in each.items())
    has = "nodes have" if nodes != 1 else "node has"
    return f"The Ray cluster has no room: an evaluation reserves {needs}, and its {nodes} {has} less free (ray status)."
