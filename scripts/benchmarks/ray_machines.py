"""A Ray cluster of several nodes on this machine, for tests and measurements: `cluster_of(4, 4)` gives its address.

Another process (`ray_machines_process`) holds the cluster, and ends it with its input. Nothing of it is left then. If
it ends before, the error shows the last lines of what it and Ray's daemons wrote.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from pace_async.children import clean_environment

ROOT = Path(__file__).parents[2]
END_S = 60.0
OWN = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "RAY_raylet_start_wait_time_s": "180",
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_gcs_server_port_wait_time_s": "180",
    "RAY_memory_monitor_refresh_ms": "0",
}
"""Beside other programs, Ray's workers would wait for them, its daemons would count as dead, and it would end
actors."""
LINES, DAEMON_LINES = 20, 4
"""So many last lines of the process, and of each of Ray's daemons, stand in an error."""


class ClusterEnded(Exception):
    """Ray's own failure. The text is what the cluster was asked, and the last lines of its logs."""


class Machines:
    """The nodes. The first one is the head."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self.process, self.folder = process, folder
        self.address = ""
        self.nodes: list[str] = []

    @property
    def port(self) -> int:
        """The head's."""
        return int(self.address.rpartition(":")[2])

    def add(
        self, cpus: int, port: int | None = None, more: Mapping[str, object] | None = None, **environment: str
    ) -> str:
        """Start a node with these variables, a head at this port. `more` are further arguments of Ray's node, such as
        `num_gpus`. Returns its identity."""
        given: dict[str, object] = {"num_cpus": cpus, **(more or {})}
        given |= {"env_vars": environment} if environment else {}
        given |= {"gcs_server_port": port} if port is not None else {}
        node, self.address = self._ask(f"add {json.dumps(given)}").split()
        self.nodes.append(node)
        return node

    def kill(self, node: str) -> None:
        """Kill all processes of a node at once."""
        self.nodes.remove(node)
        self._ask(f"kill {node}")

    def signal(self, node: str, *, stop: bool) -> None:
        """Stop a node's daemon and workers as if it were cut off, or let them go on."""
        self._ask(f"{'stop' if stop else 'go'} {node}")

    def end_all(self) -> None:
        """Kill the head and all nodes at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(END_S)

    def _ask(self, line: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        answer = ""
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().strip()
        if not answer:
            raise ClusterEnded(f"the cluster has ended at {line!r}:\n{ends_of_logs(self.folder)}")
        return answer


@contextmanager
def cluster_of(*cpus: int, port: int | None = None, dead_after_s: float = 30.0, redis: str = "") -> Generator[Machines]:
    """A cluster without a token, with a node for each number of CPUs, its head at this port. A node that is silent for
    `dead_after_s` is dead to Ray. `redis`: HOST:PORT of the head's persistent store, where there is one."""
    with tempfile.TemporaryDirectory(prefix="pace-ray-", dir="/tmp", ignore_cleanup_errors=True) as name:
        folder, stored = Path(name), {"RAY_REDIS_ADDRESS": redis} if redis else {}
        environment = clean_environment(HOME=name, RAY_TMPDIR=name, PYTHONPATH=str(ROOT), **OWN, **stored)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "scripts.benchmarks.ray_machines_process", str(dead_after_s)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                text=True,
                start_new_session=True,
            )
        machines = Machines(process, folder)
        try:
            for number, count in enumerate(cpus):
                machines.add(count, port if number == 0 else None)
            yield machines
        finally:
            with suppress(subprocess.TimeoutExpired, BrokenPipeError):
                process.communicate(timeout=END_S)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(END_S)


def ends_of_logs(folder: Path) -> str:
    """The last lines of the process that holds the cluster, and of Ray's daemons."""
    with suppress(OSError):
        said = _last_lines(folder / "log", LINES)
        daemons = [*folder.glob("ray/session_2*/logs/raylet*.*"), *folder.glob("ray/session_2*/logs/gcs_server*.*")]
        written = sorted(path for path in daemons if path.is_file() and path.stat().st_size > 0)
        return "\n".join([said, *(f"{path.name}:\n{_last_lines(path, DAEMON_LINES)}" for path in written)])
    return "its logs are gone"


def _last_lines(path: Path, count: int) -> str:
    """Without the lines of a native stack, which name no cause."""
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return "\n".join([line for line in lines if not line.lstrip().startswith("/")][-count:])
