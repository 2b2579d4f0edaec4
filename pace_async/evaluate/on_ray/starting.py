"""Starts an actor on a node, and finds out whether the node may evaluate for this run."""

from typing import Any

import anyio

from pace_async.evaluate.on_ray.attaching import name_of
from pace_async.evaluate.on_ray.cluster import ActorLost, Cluster, NodeSeen, Unanswered
from pace_async.evaluate.on_ray.placed import Placed, Wanted
from pace_async.evaluate.on_ray.wire import Order, Ready, Refused, pace_here
from pace_async.evaluate.sandbox.verdict import one_line


class NodeRefused(Exception):
    """A node must not evaluate for this run."""


async def begun(cluster: Cluster, wanted: Wanted, order: Order, files: Any, node: NodeSeen, slots: int) -> Placed:
    """A new actor on `node`, ready. Raises NodeRefused, and ActorLost if it died or was too slow."""
    name = name_of(wanted.run, node, slots)
    try:
        actor = await cluster.start(name, node, wanted.reservation(slots))
    except Unanswered as error:
        raise ActorLost(str(error)) from None
    try:
        with anyio.fail_after(wanted.timeout_s):
            if (pace := await actor.call("pace")) != pace_here():
                raise NodeRefused(f"it has pace-async {pace}, and this run {pace_here()}")
            answer: object = await actor.call("open", order.with_slots(slots), files)
            if isinstance(answer, Refused):
                raise NodeRefused(answer.reason)
            if not isinstance(answer, Ready):
                raise NodeRefused(f"it answered with {type(answer).__name__} where it begins to evaluate")
    except TimeoutError:
        actor.kill()
        raise ActorLost(f"not within {wanted.timeout_s:.0f} s") from None
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
    return Placed(node, actor, answer, slots)
