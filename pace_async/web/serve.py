"""Serves the pages until it is told to end."""

import os
import secrets
import socket
from collections.abc import Callable, Mapping

import anyio
import uvicorn

from pace_async.errors import UsageError
from pace_async.web.app import Asker, application, without_prompts
from pace_async.web.inbox import Writing
from pace_async.web.runs import OpenRun

LOOPBACK = ("127.0.0.1", "localhost", "::1")
PORT = 8642
BEHIND = 5
"""How much the server yields to a run beside it (the `nice` value)."""
TRIES = 20
"""Ports that are tried from PORT on, where none was asked for."""


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(18)


def listening_socket(host: str, port: int | None) -> socket.socket:
    """A socket that listens, at the first free port from PORT on where `port` is None. Raises UsageError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    reason = ""
    for port_number in [port] if port is not None else [*range(PORT, PORT + TRIES), 0]:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port_number))
            listening.listen(128)
        except OSError as error:
            listening.close()
            reason = error.strerror or str(error)
            continue
        return listening
    raise UsageError(f"Nothing can listen at {host}, port {port or PORT}: {reason}.")


def serve(
    runs: Mapping[str, OpenRun],
    listening: socket.socket,
    *,
    token: str | None,
    hosts: frozenset[str],
    asker: Asker = without_prompts,
    writing: Writing | None = None,
    begun: Callable[[], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM. `begun` is called when the first question can be answered."""

    async def main() -> None:
        stopping = anyio.Event()
        app = application(runs, token=token, hosts=hosts, stopping=stopping, asker=asker, writing=writing)
        quiet = uvicorn.Config(app, log_level="error", access_log=False, lifespan="off", timeout_graceful_shutdown=2)
        server = _Server(quiet, stopping, begun)
        await server.serve(sockets=[listening])

    os.nice(BEHIND)
    anyio.run(main)


class _Server(uvicorn.Server):
    """Ends the streams of events before it waits for open answers."""

    def __init__(self, config: uvicorn.Config, stopping: anyio.Event, begun: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._stopping = stopping
        self._begun = begun

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._begun is not None:
            self._begun()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        await super().shutdown(sockets)
