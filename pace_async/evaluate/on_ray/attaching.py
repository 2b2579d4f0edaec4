"""The actors of a run: begun on a node, or found by their names, with the evaluations that they know since before.

Invariant: what an actor knows is used only if the same is asked again: the same identity or a later attempt of it, and
the same program, seed, limits and needs.
"""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from pace_async.evaluate.base import EvaluationId, EvaluationRequest
from pace_async.evaluate.on_ray.cluster import Actor, ActorLost, Cluster, NodeSeen, Unanswered
from pace_async.evaluate.on_ray.placed import PlacedActor, SlotDemand
from pace_async.evaluate.on_ray.wire import Attached, Known, Order, Ready, Refused, fingerprint, pace_here
from pace_async.evaluate.sandbox.verdict import one_line

MARK = 12
"""So many characters of a node's identity stand in the names of its actors."""
OWN = r"(?P<mark>[^-]+)-(?:(?P<slots>[1-9][0-9]{0,5})[.])?[0-9a-f]{8}"
"""The rest of an actor's name, after that of its run. Those of an earlier pace-async had no slots."""
MOST_LATER = 100
"""An actor may have a later attempt than the one that is asked for, by so many at most."""


def name_of(run: str, node: NodeSeen, slots: int) -> str:
    """The name of a new actor. It says for how many slots the actor reserves, which no actor is asked then."""
    return f"{run}-{node.id[:MARK]}-{slots}.{secrets.token_hex(4)}"


class NodeRefused(Exception):
    """A node must not evaluate for this run."""


async def begin_actor(
    cluster: Cluster, demand: SlotDemand, order: Order, files: Any, node: NodeSeen, slots: int
) -> PlacedActor:
    """A new actor on `node`, ready. Raises NodeRefused, and ActorLost if it died or was too slow."""
    name = name_of(demand.run, node, slots)
    try:
        actor = await cluster.start(name, node, demand.reservation(slots))
    except Unanswered as error:
        raise ActorLost(str(error)) from None
    try:
        with anyio.fail_after(demand.timeout_s):
            if (pace := await actor.call("pace")) != pace_here():
                raise NodeRefused(f"it has pace-async {pace}, and this run {pace_here()}")
            answer: object = await actor.call("open", order.with_slots(slots), files)
            if isinstance(answer, Refused):
                raise NodeRefused(answer.reason)
            if not isinstance(answer, Ready):
                raise NodeRefused(f"it answered with {type(answer).__name__} where it begins to evaluate")
    except TimeoutError:
        actor.kill()
        raise ActorLost(f"not within {demand.timeout_s:.0f} s") from None
    except Unanswered as error:
        actor.kill()
        raise ActorLost(str(error)) from None
    except (ImportError, AttributeError) as error:  # of a node that has no such pace
        actor.kill()
        raise NodeRefused(f"this pace-async does not run there ({one_line(str(error))})") from None
    except RuntimeError as error:
        actor.kill()
        raise ActorLost(one_line(f"{type(error).__name__}: {error}")) from None
    except BaseException:
        actor.kill()
        raise
    return PlacedActor(node, actor, answer, slots)


@dataclass(frozen=True, slots=True)
class HeldEvaluation:
    """An evaluation that an actor has since before this process."""

    placed: PlacedActor
    known: Known

    @property
    def identity(self) -> EvaluationId:
        return self.known.identity


@dataclass(slots=True)
class HeldEvaluations:
    """All of them, by lease, stage and fresh seed."""

    by_series: dict[tuple[int, str, int], list[HeldEvaluation]] = field(
        default_factory=dict[tuple[int, str, int], list[HeldEvaluation]]
    )

    def add(self, placed: PlacedActor, known: Sequence[Known]) -> None:
        """Add what an actor knows."""
        for evaluation in known:
            self.by_series.setdefault(evaluation.identity.series, []).append(HeldEvaluation(placed, evaluation))

    def of(self, placed: PlacedActor) -> list[HeldEvaluation]:
        """What this actor has and no caller has asked for."""
        return [
            evaluation for listed in self.by_series.values() for evaluation in listed if evaluation.placed is placed
        ]

    def forget(self, placed: PlacedActor) -> None:
        """Give up what this actor had."""
        for series, listed in self.by_series.items():
            self.by_series[series] = [evaluation for evaluation in listed if evaluation.placed is not placed]

    def take(self, request: EvaluationRequest) -> HeldEvaluation | None:
        """What is asked, if an actor that is alive has it: the newest attempt, from that of the request on. It is given
        once."""
        listed = self.by_series.get(request.id.series, [])
        fitting = [
            evaluation
            for evaluation in listed
            if evaluation.placed.alive
            and evaluation.identity.run == request.id.run
            and 0 <= evaluation.identity.attempt - request.id.attempt <= MOST_LATER
            and evaluation.known.asked == fingerprint(request)
        ]
        if not fitting:
            return None
        newest = max(fitting, key=lambda evaluation: evaluation.identity.attempt)
        listed.remove(newest)
        return newest


async def found_actors(
    cluster: Cluster, run: str, order: Order, nodes: Sequence[NodeSeen], timeout_s: float
) -> list[tuple[PlacedActor, Attached]]:
    """The actors of this run that answer and evaluate the same. Any other of its actors is ended, and none of a run
    whose name only begins like this one's."""
    pairs: list[tuple[PlacedActor, Attached]] = []

    async def attach(actor: Actor, name: re.Match[str]) -> None:
        node = next((node for node in nodes if node.id.startswith(name["mark"])), None)
        attached = await _attached(actor, order, timeout_s) if node is not None else None
        if node is None or attached is None or name["slots"] is None:
            actor.kill()
            return
        pairs.append((PlacedActor(node, actor, attached.ready, int(name["slots"])), attached))

    async with anyio.create_task_group() as group:
        for actor in await cluster.named(f"{run}-"):
            if (name := re.fullmatch(f"{re.escape(run)}-{OWN}", actor.name)) is not None:
                group.start_soon(attach, actor, name)
    return sorted(pairs, key=lambda pair: pair[0].actor.name)


async def _attached(actor: Actor, order: Order, timeout_s: float) -> Attached | None:
    with anyio.move_on_after(timeout_s):
        while True:
            try:
                if await actor.call("pace") != pace_here():
                    return None
                answer: object = await actor.call("attach", order)
            except Unanswered:
                await anyio.sleep(1.0)
                continue
            except (ActorLost, RuntimeError, ImportError, AttributeError):
                return None
            return answer if isinstance(answer, Attached) else None
    return None
