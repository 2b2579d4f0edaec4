"""The process of a Ray cluster of several nodes on this machine, for `ray_machines`.

It reads commands as lines and answers each by a line: `add JSON` with the arguments of a node, by the node's identity
and the address of the cluster. `kill ID`, `stop ID` and `go ID` are answered by `done`: all processes of the node get
SIGKILL, or its daemon and workers are stopped as if the node were cut off, or they go on. The first node is the head,
and the next one after the head was killed is a head again. The cluster ends with the input.
"""

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from ray.cluster_utils import Cluster

from pace_async.evaluate.on_ray.head import wait_for_no_agent

LOOPBACK = "127.0.0.2"
CHECK_MS = 500


def _family(pid: int) -> list[int]:
    """A process and all below it, the parents first."""
    found = [pid]
    for parent in found:
        with suppress(OSError):
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text()
            found += [int(child) for child in children.split()]
    return found


def _send(node: Any, number: int) -> None:
    daemon = node.all_processes["raylet"][0].process.pid
    for pid in _family(daemon):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _added(cluster: Any, arguments: dict[str, Any], dead_after_s: float) -> Any:
    given = {"node_ip_address": LOOPBACK, "include_dashboard": False, **arguments}
    if cluster.head_node is None:
        checks = {"health_check_period_ms": CHECK_MS, "health_check_initial_delay_ms": CHECK_MS}
        given["_system_config"] = {**checks, "health_check_failure_threshold": int(1000 * dead_after_s / CHECK_MS)}
    return cluster.add_node(dashboard_agent_listen_port=None, object_store_memory=100 << 20, **given)


def main() -> None:
    """`dead_after_s`: a node that is silent for so long is dead to Ray."""
    (dead_after_s,) = sys.argv[1:]
    wait_for_no_agent()
    cluster, nodes = cast("Any", Cluster()), dict[str, Any]()
    try:
        for line in sys.stdin:
            command, _, rest = line.strip().partition(" ")
            if command == "add":
                node = _added(cluster, json.loads(rest), float(dead_after_s))
                nodes[node.node_id] = node
                print(node.node_id, cluster.address, flush=True)
                continue
            if command == "kill":
                cluster.remove_node(nodes.pop(rest), allow_graceful=False)
            else:
                _send(nodes[rest], signal.SIGSTOP if command == "stop" else signal.SIGCONT)
            print("done", flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
