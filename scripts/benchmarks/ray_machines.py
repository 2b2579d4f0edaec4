"""A Ray cluster of several nodes on this machine, for measurements: `cluster_of(4, 4)` gives its address.

`Machines` starts the process below, which holds the cluster and reads commands as lines: `add CPUS`, answered by the
identity of the new node and the address of the cluster, and `kill ID`, `stop ID` and `go ID`, answered by `done`. The
cluster ends with the input of that process.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from pace_async.children import clean_environment

LOOPBACK = "127.0.0.2"
END_S = 60.0
OWN = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "RAY_raylet_start_wait_time_s": "180",
    "RAY_memory_monitor_refresh_ms": "0",
}
SLOW_IS_NOT_DEAD = {"health_check_period_ms": 1000, "health_check_failure_threshold": 30}


class Machines:
    """The nodes. The first one is the head."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.address = ""
        self.nodes: list[str] = []

    def add(self, cpus: int) -> str:
        """Start a node."""
        node, self.address = self._ask(f"add {cpus}").split()
        self.nodes.append(node)
        return node

    def kill(self, node: str) -> None:
        """Kill all processes of a node at once."""
        self.nodes.remove(node)
        self._ask(f"kill {node}")

    def signal(self, node: str, *, stop: bool) -> None:
        """Stop a node's daemon and workers as if it were cut off, or let them go on."""
        self._ask(f"{'stop' if stop else 'go'} {node}")

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if not answer:
            raise RuntimeError("the cluster has ended")
        return answer


@contextmanager
def cluster_of(*cpus: int) -> Generator[Machines]:
    """A cluster with a node for each number of CPUs. Nothing of it is left at the end."""
    with tempfile.TemporaryDirectory(prefix="pace-ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        root = Path(__file__).parents[2]
        environment = clean_environment(HOME=folder, RAY_TMPDIR=folder, PYTHONPATH=str(root), **OWN)
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "scripts.benchmarks.ray_machines"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                text=True,
                start_new_session=True,
            )
        machines = Machines(process)
        try:
            for count in cpus:
                machines.add(count)
            yield machines
        finally:
            with suppress(subprocess.TimeoutExpired, BrokenPipeError):
                process.communicate(timeout=END_S)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(END_S)


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


def main() -> None:
    """The process of the cluster."""
    cluster, nodes = cast("Any", import_module("ray.cluster_utils")).Cluster(), dict[str, Any]()
    try:
        for line in sys.stdin:
            command, rest = line.split()
            if command == "add":
                first = {} if nodes else {"_system_config": SLOW_IS_NOT_DEAD}
                node = cluster.add_node(
                    num_cpus=int(rest),
                    node_ip_address=LOOPBACK,
                    include_dashboard=False,
                    dashboard_agent_listen_port=None,
                    object_store_memory=100 << 20,
                    **first,
                )
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
