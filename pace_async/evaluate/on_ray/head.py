"""A Ray cluster of this machine alone, for the length of a run.

`own_head` starts the process below it. That process starts Ray's daemons, writes the address, and ends them when its
input is closed, so also when the runtime was killed. It gets a clean environment and a home of its own, and whatever
connects needs its token. It listens on the loopback interface only. Ray's servers do so for a node at 127.0.0.1 and
for no other address, and Ray keeps that address only where it is told that it forms no cluster (LOCAL).
"""

import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import anyio

from pace_async.children import child, clean_environment, python_module
from pace_async.errors import InfrastructureFault
from pace_async.evaluate.on_ray.cluster import refuse_unless_installed
from pace_async.evaluate.sandbox import leftovers

LOOPBACK = "127.0.0.1"
LOCAL = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Ray's switch for one machine alone, which has effect on Linux too. Without it Ray replaces 127.0.0.1 by an address
that others reach, and all its servers listen on every interface."""
OBJECT_STORE_BYTES = 256 << 20
AGENT_PORTS = ("metrics-agent-port", "metrics_export_port", "runtime_env_agent_port", "dashboard_agent_listen_port")
END_S = 30.0
EQUAL = {"RAY_worker_niceness": "0", "RAY_memory_monitor_refresh_ms": "0"}
"""Programs get processor and memory as they do without Ray, which would put its workers behind all others, and end them
when other programs fill the memory. Programs have limits of their own."""
SHORT = Path("/tmp")
"""Ray makes sockets below, whose paths must be short."""


@dataclass(frozen=True, slots=True)
class Head:
    """The address, and the variables with which this process connects."""

    address: str
    environment: Mapping[str, str]


@asynccontextmanager
async def own_head(cpus: int, timeout_s: float, variables: Mapping[str, str]) -> AsyncGenerator[Head]:
    """A cluster with one node, which has so many processors. `variables` are passed on to it. Raises
    InfrastructureFault if it does not start in time."""
    refuse_unless_installed()
    folder = Path(tempfile.mkdtemp(prefix=leftovers.prefix(), dir=SHORT))
    token = folder / "token"
    token.touch(0o600)
    token.write_text(secrets.token_hex(32))
    connection = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), **LOCAL}
    own = {"HOME": str(folder), "RAY_TMPDIR": str(folder), "RAY_USAGE_STATS_ENABLED": "0", **connection, **EQUAL}
    environment = clean_environment(**variables, **own)
    log = folder / "head.log"
    try:
        command = python_module(__name__, str(cpus))
        async with child(command, log=log, environment=environment, patience_s=END_S) as process:
            address = b""
            with anyio.move_on_after(timeout_s):
                assert process.stdout is not None
                try:
                    while not address.endswith(b"\n"):
                        address += await process.stdout.receive()
                except anyio.EndOfStream:
                    address = b""
            if not address:
                raise InfrastructureFault("ray", f"Ray did not start on this machine: {_last_line(log)}")
            yield Head(address.decode().strip(), connection)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_no_agent() -> None:
    """From now on, for the nodes that this process starts. A node starts two programs in Python, which serve metrics,
    logs and the environments of workers. Its daemon (Ray 2.60) waits 15 s for their ports and then ends itself,
    whatever is set. On a busy machine they need longer. Nothing here uses them, so the daemon takes their ports as
    known."""
    services = cast("Any", import_module("ray._private.services"))
    start = services.start_ray_process

    def started(command: list[str], process_type: str, *arguments: Any, **named: Any) -> Any:
        if process_type == "raylet":
            flags = tuple(f"--{name}=" for name in AGENT_PORTS)
            command = [word for word in command if not word.startswith(flags)] + [f"{flag}1" for flag in flags]
        return start(command, process_type, *arguments, **named)

    services.start_ray_process = started


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it wrote no reason"


def main() -> None:
    """The process of the head."""
    cpus = int(sys.argv[1])
    wait_for_no_agent()
    cluster = cast("Any", import_module("ray.cluster_utils")).Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": cpus,
            "num_gpus": None,
            "include_dashboard": False,
            "dashboard_agent_listen_port": None,
            "node_ip_address": LOOPBACK,
            "object_store_memory": OBJECT_STORE_BYTES,
        },
    )
    try:
        print(cluster.address, flush=True)
        sys.stdin.read()
    finally:
        try:
            cluster.shutdown()
        finally:
            if os.getpgrp() == os.getpid():
                os.killpg(0, signal.SIGKILL)  # what it forgot, if one of its daemons had died before


if __name__ == "__main__":
    main()
