"""Starts nodes of Ray that do not wait for their agents.

A node starts two programs in Python, which serve metrics, logs and the environments of workers. Its daemon (Ray 2.60)
waits 15 s for their ports and then ends itself, whatever is set. On a busy machine they need longer. Nothing here uses
the agents, so the daemon takes their ports as known.
"""

from importlib import import_module
from typing import Any, cast

PORTS = ("metrics-agent-port", "metrics_export_port", "runtime_env_agent_port", "dashboard_agent_listen_port")


def wait_for_no_agent() -> None:
    """From now on, for the nodes that this process starts."""
    services = cast("Any", import_module("ray._private.services"))
    start = services.start_ray_process

    def started(command: list[str], process_type: str, *arguments: Any, **named: Any) -> Any:
        if process_type == "raylet":
            flags = tuple(f"--{name}=" for name in PORTS)
            command = [one for one in command if not one.startswith(flags)] + [f"{flag}1" for flag in flags]
        return start(command, process_type, *arguments, **named)

    services.start_ray_process = started
