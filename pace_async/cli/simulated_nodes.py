"""The nodes of `pace simulate`: the machines that its flags ask for, and the words for what their failures cost."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pace_async.cli.simulation import SimulateFlags
    from pace_async.simulate.nodes import NodesShape

_TIME = re.compile(r"(\d+(?:\.\d*)?)(s|m|h|d)")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def nodes_of(flags: "SimulateFlags", threads: int) -> "NodesShape | None":
    """The nodes that the flags describe, None without any. Raises UsageError."""
    from pace_async.errors import UsageError

    given = {
        "--slots-per-node": flags.slots_per_node,
        "--node-mtbf": flags.node_mtbf,
        "--node-repair": flags.node_repair,
        "--preempt": flags.preempt,
    }
    if flags.nodes is None:
        without = next((name for name, value in given.items() if value is not None), None)
        if without is not None:
            raise UsageError(f"{without} is for simulated machines: give their number too, as in --nodes 8.")
        return None
    if flags.slots is not None:
        raise UsageError("--nodes and --slots exclude each other: --slots-per-node says how many a node has.")
    each = -(-threads // flags.nodes) if flags.slots_per_node is None else flags.slots_per_node
    if flags.nodes * each < threads:
        raise UsageError(
            f"--nodes {flags.nodes} with --slots-per-node {each} are {flags.nodes * each} slots for --threads "
            f"{threads}: give at least as many slots as threads."
        )
    preempt = 0.0 if flags.preempt is None else flags.preempt
    if not 0 <= preempt < 1:
        raise UsageError(f"--preempt must be a probability from 0 to below 1, not {preempt:g}.")
    return _shape(flags, each, preempt)


def _shape(flags: "SimulateFlags", each: int, preempt: float) -> "NodesShape":
    from pace_async.simulate.nodes import NodesShape

    return NodesShape(
        count=flags.nodes or 1,
        slots_each=each,
        mtbf_s=None if flags.node_mtbf is None else _seconds("--node-mtbf", flags.node_mtbf),
        repair_s=600.0 if flags.node_repair is None else _seconds("--node-repair", flags.node_repair),
        preempt=preempt,
    )


def _seconds(name: str, given: str) -> float:
    """The seconds of a time as in 45s, 90m, 6h or 2d. Raises UsageError."""
    from pace_async.errors import UsageError

    found = _TIME.fullmatch(given.strip())
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if seconds < 1:
        raise UsageError(f"{name} must be a time of at least one second, as in 45s, 90m, 6h or 2d, not '{given}'.")
    return seconds


def nodes_in_words(found: Mapping[str, Any]) -> dict[str, object]:
    """The part of the printed result that tells of nodes."""
    lost = f"{found['lost_to_node_deaths']:,} by {found['node_deaths']:,} node failures"
    return {
        "nodes": f"{found['nodes']:,} with {found['slots']:,} slots, away {100 * found['away']:.1f} % of the time",
        "lost attempts": f"{lost}, {found['lost_to_preemption']:,} preempted, of {found['attempts']:,}",
        "waste": f"{100 * found['waste']:.1f} % of the used slot seconds ({found['lost_slot_seconds']:,.0f} s)",
        "wait for a slot": f"{found['queue_seconds']:,.1f} s in the mean",
        "aborted": f"{found['aborted']:,} rollouts",
    }
