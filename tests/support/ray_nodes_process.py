"""A Ray cluster of several nodes on this machine, for `tests.support.ray_nodes`, in a separate process.

It reads commands as lines and answers each by a line: `add JSON` with the arguments of a node, by the node's identity;
`kill ID`, which kills all processes of a node with SIGKILL. It ends the cluster when its input is closed.
"""

import json
import sys
from typing import Any, cast

from ray.cluster_utils import Cluster

LOOPBACK = "127.0.0.2"
HEALTH = {"health_check_period_ms": 500, "health_check_failure_threshold": 20, "health_check_initial_delay_ms": 500}
"""A dead node is seen within some seconds, and a slow one is not dead."""


def main() -> None:
    """The cluster has no node when it begins: the first one that is added is its head."""
    cluster, nodes = cast("Any", Cluster()), dict[str, Any]()
    try:
        for line in sys.stdin:
            command, _, rest = line.strip().partition(" ")
            if command == "add":
                given = {"node_ip_address": LOOPBACK, "include_dashboard": False, **json.loads(rest)}
                if not nodes:
                    given["_system_config"] = HEALTH
                node = cluster.add_node(dashboard_agent_listen_port=None, object_store_memory=100 << 20, **given)
                nodes[node.node_id] = node
                print(node.node_id, cluster.address, flush=True)
            else:
                cluster.remove_node(nodes.pop(rest), allow_graceful=False)
                print("killed", flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
