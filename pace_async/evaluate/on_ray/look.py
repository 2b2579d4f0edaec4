"""What the nodes of a Ray cluster can do, asked before a run begins and by `pace doctor`.

A child process asks them: Ray's code may wait without an end for a cluster that does not answer, and this process is
not connected before its run begins.
"""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import anyio

from pace_async.children import child, clean_environment, python_module
from pace_async.config import EvaluationConfig
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.evaluate.on_ray.cluster import ActorLost, Cluster, NodeSeen, Unanswered, refuse_unless_installed
from pace_async.evaluate.on_ray.connection import address_of, reached
from pace_async.evaluate.on_ray.node import NodeEvaluator
from pace_async.evaluate.on_ray.wire import Looked, pace_here

TWICE = 2
"""The cluster has to be reached, and then each node has to answer: each has `evaluation.ray_timeout_s`."""
REMEDY = "install the pace-async of this machine there, and bubblewrap"


async def look(evaluation: EvaluationConfig) -> Sequence[Looked]:
    """What each node says of itself. Without an address a cluster is started on this machine, and ended. Raises
    UsageError, in one sentence, if there is no cluster."""
    refuse_unless_installed()
    asked = evaluation.model_dump_json()
    own = {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
    answer = b""
    limit = TWICE * evaluation.ray_timeout_s
    command = python_module(__name__, asked)
    async with child(command, log=Path(os.devnull), environment=clean_environment(**own)) as process:
        assert process.stdout is not None
        with anyio.move_on_after(limit):
            async for part in process.stdout:
                answer += part
            if answer:
                found = json.loads(answer)
                if isinstance(found, str):
                    raise UsageError(found)
                return [Looked(**node) for node in found]
    where = address_of(evaluation) or "this machine"
    raise UsageError(f"The Ray cluster of {where} did not say within {limit:.0f} s what its nodes can do.")


async def refuse_unless_there(evaluation: EvaluationConfig) -> None:
    """Raises UsageError if no node of the cluster could evaluate. A cluster that the run starts itself is not
    started for that."""
    refuse_unless_installed()
    if evaluation.memo is not None:
        raise UsageError(f"evaluation.memo is a file of this machine ({evaluation.memo}): leave it out on Ray.")
    if not address_of(evaluation):
        return
    found = await look(evaluation)
    if not any(node.fit for node in found):
        said = "; ".join(f"node {node.name}: {node.found}" for node in found)
        raise UsageError(f"No node of the Ray cluster can evaluate: {said or 'it has none'}.")


async def _asked(evaluation: EvaluationConfig) -> list[Looked]:
    found: list[Looked] = []
    async with reached(evaluation, cpus=1, variables={}) as cluster, anyio.create_task_group() as group:

        async def ask(node: NodeSeen) -> None:
            found.append(await _one(cluster, node, evaluation))

        for node in await cluster.nodes():
            group.start_soon(ask, node)
    return sorted(found, key=lambda node: node.name)


async def _one(cluster: Cluster, node: NodeSeen, evaluation: EvaluationConfig) -> Looked:
    actor = await cluster.start(NodeEvaluator, f"look-{node.id[:12]}-{os.getpid()}", node, 0.0, 0.0)
    try:
        with anyio.fail_after(evaluation.ray_timeout_s):
            if (pace := await actor.call("pace")) != pace_here():
                return Looked(node.name, False, f"it has pace-async {pace}, and this machine {pace_here()}", REMEDY)
            return await actor.call("look", node.name, evaluation.unsafe_no_sandbox)
    except TimeoutError:
        return Looked(node.name, False, f"it did not answer within {evaluation.ray_timeout_s:.0f} s", "ray status")
    except (ActorLost, Unanswered) as error:
        return Looked(node.name, False, f"pace-async does not run there ({error})", REMEDY)
    except (RuntimeError, ImportError, AttributeError):
        return Looked(node.name, False, "this pace-async does not run there", REMEDY)
    finally:
        actor.kill()


def main() -> None:
    """The child process."""
    evaluation = EvaluationConfig.model_validate_json(sys.argv[1])
    try:
        answer: object = [asdict(node) for node in anyio.run(_asked, evaluation)]
    except (UsageError, InfrastructureFault) as error:
        answer = str(error)
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
