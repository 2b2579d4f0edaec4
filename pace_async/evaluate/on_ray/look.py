"""What the nodes of a Ray cluster can do, asked before a run begins and by `pace doctor`."""

import secrets
from collections.abc import Sequence
from dataclasses import replace

import anyio

from pace_async.config import EvaluationConfig
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.evaluate.base import Needs
from pace_async.evaluate.on_ray.cluster import (
    ActorLost,
    Cluster,
    NodeSeen,
    Reservation,
    Unanswered,
    refuse_unless_installed,
)
from pace_async.evaluate.on_ray.connection import address_of, open_cluster
from pace_async.evaluate.on_ray.placed import no_room, reserved_by_slot, shares
from pace_async.evaluate.on_ray.wire import Looked, pace_here
from pace_async.task import TaskSpec

REMEDY = "install the pace-async of this machine there, and bubblewrap"


async def look(evaluation: EvaluationConfig) -> Sequence[Looked]:
    """What each node reports about itself. Without an address a cluster is started on this machine, and ended. Raises
    UsageError, in one sentence, if there is no cluster."""
    reports: list[Looked] = []
    try:
        async with open_cluster(evaluation, cpus=1, variables={}) as cluster, anyio.create_task_group() as group:

            async def ask(node: NodeSeen) -> None:
                reports.append(await _look_at(cluster, node, evaluation))

            for node in await _nodes(cluster, evaluation):
                group.start_soon(ask, node)
    except InfrastructureFault as fault:
        raise UsageError(str(fault)) from None
    return sorted(reports, key=lambda node: node.name)


async def refuse_unless_there(evaluation: EvaluationConfig, spec: TaskSpec | None) -> None:
    """Raises UsageError if no node of the cluster could evaluate, or if none has room for an evaluation of this task.
    None for a run that goes on, which may have reserved the room. A cluster that the run starts itself is not started
    for that."""
    refuse_unless_installed()
    if evaluation.memo is not None:
        raise UsageError(f"evaluation.memo is a file of this machine ({evaluation.memo}): leave it out on Ray.")
    if not address_of(evaluation):
        return
    nodes = await look(evaluation)
    if evaluation.ray_scales and all(node.fit for node in nodes):
        return  # the room may be still to come
    if not any(node.fit for node in nodes):
        findings = "; ".join(f"node {node.name}: {node.found}" for node in nodes)
        raise UsageError(f"No node of the Ray cluster can evaluate: {findings or 'it has none'}.")
    if spec is not None:
        each = reserved_by_slot(Needs.of(spec), evaluation.ray_resources)
        if not shares({node.name: node.free for node in nodes if node.fit}, 1, each):
            raise UsageError(no_room(each, len(nodes)))


async def _nodes(cluster: Cluster, evaluation: EvaluationConfig) -> list[NodeSeen]:
    limit = evaluation.ray_timeout_s
    try:
        with anyio.fail_after(limit):
            return await cluster.nodes()
    except TimeoutError:
        where = address_of(evaluation) or "this machine"
        raise UsageError(f"The Ray cluster of {where} did not say within {limit:.0f} s what its nodes are.") from None


async def _look_at(cluster: Cluster, node: NodeSeen, evaluation: EvaluationConfig) -> Looked:
    name = f"look-{node.id[:12]}-{secrets.token_hex(4)}"
    try:
        actor = await cluster.start(name, node, Reservation({}))
    except Unanswered as error:
        return Looked(node.name, False, f"it was not asked ({error})", "ray status")
    try:
        with anyio.fail_after(evaluation.ray_timeout_s):
            if (pace := await actor.call("pace")) != pace_here():
                return Looked(node.name, False, f"it has pace-async {pace}, and this machine {pace_here()}", REMEDY)
            looked: Looked = await actor.call("look", node.name, evaluation.unsafe_no_sandbox)
            return replace(looked, free=node.free)
    except TimeoutError:
        return Looked(node.name, False, f"it did not answer within {evaluation.ray_timeout_s:.0f} s", "ray status")
    except (ActorLost, Unanswered) as error:
        return Looked(node.name, False, f"pace-async does not run there ({error})", REMEDY)
    except (RuntimeError, ImportError, AttributeError):
        return Looked(node.name, False, "this pace-async does not run there", REMEDY)
    finally:
        actor.kill()
