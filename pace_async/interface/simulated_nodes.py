"""The simulated machines that a shape asks for."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from pace_async.errors import UsageError

if TYPE_CHECKING:
    from pace_async.interface.simulating import Shape
    from pace_async.simulate.nodes import NodesShape

REPAIR_S = 600.0
_TIME = re.compile(r"(\d+(?:\.\d*)?)(s|m|h|d)")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def nodes_of(shape: "Shape", threads: int, called: Callable[[str], str]) -> "NodesShape | None":
    """The nodes, None without any. `called` gives the name of a key in errors. Raises UsageError."""
    nodes, each = shape.get("nodes"), shape.get("slots_per_node")
    if nodes is None:
        of_nodes = {name: shape.get(name) for name in ("slots_per_node", "node_mtbf", "node_repair", "preempt")}
        without = next((name for name, value in of_nodes.items() if value is not None), None)
        if without is not None:
            raise UsageError(
                f"{called(without)} is for simulated machines: give their number too, as in {called('nodes')} 8."
            )
        return None
    if shape.get("slots") is not None:
        raise UsageError(
            f"{called('nodes')} and {called('slots')} exclude each other: {called('slots_per_node')} says how many a "
            "node has."
        )
    each = -(-threads // nodes) if each is None else each
    if nodes * each < threads:
        raise UsageError(
            f"{called('nodes')} {nodes} with {called('slots_per_node')} {each} are {nodes * each} slots for "
            f"{called('threads')} {threads}: give at least as many slots as threads."
        )
    preempt = shape.get("preempt") or 0.0
    if not 0 <= preempt < 1:
        raise UsageError(f"{called('preempt')} must be a probability from 0 to below 1, not {preempt:g}.")
    mtbf, repair = shape.get("node_mtbf"), shape.get("node_repair")
    from pace_async.simulate.nodes import NodesShape

    return NodesShape(
        count=nodes,
        slots_each=each,
        mtbf_s=None if mtbf is None else _seconds(called("node_mtbf"), mtbf),
        repair_s=REPAIR_S if repair is None else _seconds(called("node_repair"), repair),
        preempt=preempt,
    )


def _seconds(name: str, given: str | float) -> float:
    """The seconds of a time as in 45s, 90m, 6h or 2d, or of a number of seconds. Raises UsageError."""
    if isinstance(given, str):
        found = _TIME.fullmatch(given.strip())
        seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    else:
        seconds = float(given)
    if not 1 <= seconds < float("inf"):
        raise UsageError(f"{name} must be a time of at least one second, as in 45s, 90m, 6h or 2d, not '{given}'.")
    return seconds
