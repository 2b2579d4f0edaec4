"""A Ray cluster of several nodes on this machine."""

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from pace_async.children import clean_environment

NEEDS_RAY = pytest.mark.skipif(
    find_spec("ray") is None or sys.platform != "linux", reason="Ray is not installed (pip install 'pace-async[ray]')"
)
END_S = 30.0
RUNNING: set[int] = set()
"""For each cluster of this process that runs, the process under which its others are. Some serve many tests."""
UNDER_LOAD = {
    "RAY_worker_niceness": "0",
    "RAY_raylet_start_wait_time_s": "180",
    "RAY_memory_monitor_refresh_ms": "0",
}
"""Beside other programs, Ray's workers would wait for them, its daemons would count as dead, and it
would end actors."""


@dataclass
class RayNodes:
    """Its first node is the head, which cannot be killed alone."""

    process: "subprocess.Popen[str]"
    address: str = ""

    def add(self, cpus: int, port: int | None = None, **environment: str) -> str:
        """Start a node with so many CPUs and these variables, a head at this port. Returns its identity."""
        asked: dict[str, object] = {"num_cpus": cpus}
        asked |= {"env_vars": environment} if environment else {}
        asked |= {"gcs_server_port": port} if port is not None else {}
        node, self.address = self._asked(f"add {json.dumps(asked)}").split()
        return node

    def kill(self, node: str) -> None:
        """Kill all processes of a node at once."""
        self._asked(f"kill {node}")

    @property
    def port(self) -> int:
        """The head's."""
        return int(self.address.rpartition(":")[2])

    def end_all(self) -> None:
        """Kill the head and all nodes at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(END_S)

    def _asked(self, line: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        assert answer, "the cluster's process has ended"
        return answer


@cache
def shared_node() -> str:
    """The address of a cluster of one node, for all tests of this process. It ends with the process."""
    stack = ExitStack()
    cluster = stack.enter_context(ray_nodes(2))
    atexit.register(stack.close)
    return cluster.address


@contextmanager
def ray_nodes(*cpus: int, port: int | None = None) -> Generator[RayNodes]:
    """A cluster with a node for each number of CPUs, without a token, its head at this port. Nothing of it is left at
    the end."""
    with tempfile.TemporaryDirectory(prefix="pace-ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        environment = clean_environment(HOME=folder, RAY_TMPDIR=folder, RAY_USAGE_STATS_ENABLED="0", **UNDER_LOAD)
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.ray_nodes_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                text=True,
                start_new_session=True,
            )
        cluster = RayNodes(process)
        RUNNING.add(process.pid)
        try:
            for number, count in enumerate(cpus):
                cluster.add(count, port if number == 0 else None)
            yield cluster
        finally:
            with suppress(subprocess.TimeoutExpired, BrokenPipeError):
                process.communicate(timeout=END_S)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(END_S)
            RUNNING.discard(process.pid)
