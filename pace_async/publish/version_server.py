"""A server of this process from which engines fetch versions.

Invariants: only files of offered versions leave, and only for the server's token, which no error names. The last few
versions stay available. Bytes go from file to socket in threads, so the event loop is not held up.
"""

import contextlib
import secrets
import socket
import threading
from collections.abc import Mapping
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import anyio.to_thread

from pace_async.errors import InfrastructureFault
from pace_async.model_folder import weight_files
from pace_async.transfer import Offer
from pace_async.weights import version_digest

KEPT = 3
"""Versions that stay available: a server that lags may still fetch an older one."""
CONNECTIONS = 64
IDLE_S = 60.0
"""A connection that neither sends nor takes a byte for so long is closed."""


def files_of(weights: Path) -> dict[str, int]:
    """The files that an engine needs of a version, with their sizes in bytes."""
    return {file.name: file.stat().st_size for file in weight_files(weights)}


class ServedVersions:
    """An `Offerer` that serves versions from this process, by a server for each address from which engines are
    reached."""

    def __init__(self, where: str | None, servers: contextlib.ExitStack) -> None:
        self._where = where
        self._servers = servers
        self._ports: dict[str, int] = {}
        self._shelf = _Shelf()

    async def offer(self, weights: Path, digests: Mapping[str, str], engine: str, seconds: float) -> Offer:
        files = files_of(weights)
        digest = version_digest(digests)
        try:
            url = await anyio.to_thread.run_sync(self._address, engine)
        except (OSError, OverflowError) as error:
            place = self._where or f"an address towards {engine}"
            raise InfrastructureFault("offer_failed", f"versions cannot be served at {place}: {error}") from error
        self._shelf.put(digest, {name: weights / name for name in files})
        return Offer(url, digest, files, self._shelf.token, seconds)

    def _address(self, engine: str) -> str:
        """The URL for this engine. Listens there from the first time on."""
        if self._where is not None:
            parts = urlsplit(self._where)
            host, port = parts.hostname or "", parts.port or 0
            self._listen(host, port, anywhere=True)
            return self._where
        host = _own_address(engine)
        port = self._listen(host, 0, anywhere=False)
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def _listen(self, host: str, port: int, *, anywhere: bool) -> int:
        """The port of the server of this host. With `anywhere` it listens on all addresses of this machine if the host
        is none of them, as behind a translation of addresses."""
        if host not in self._ports:
            try:
                server = _Server((host, port), self._shelf)
            except OSError:
                if not anywhere or _is_here(host):
                    raise
                server = _Server(("", port), self._shelf)
            thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="pace-versions", daemon=True)
            thread.start()
            self._servers.callback(_end, server, thread)
            self._ports[host] = server.server_address[1]
        return self._ports[host]


class _Shelf:
    """The files on offer, by digest and name, and the token that opens them."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self._lock = threading.Lock()
        self._files: dict[str, Mapping[str, Path]] = {}

    def put(self, digest: str, files: Mapping[str, Path]) -> None:
        with self._lock:
            self._files.pop(digest, None)
            self._files[digest] = files
            while len(self._files) > KEPT:
                del self._files[next(iter(self._files))]

    def file(self, path: str, authorization: str) -> Path | None:
        """The file of a request, None if there is none or the token is wrong."""
        if not compare_digest(authorization.encode(), f"Bearer {self.token}".encode()):
            return None
        digest, _, name = path.strip("/").partition("/")
        with self._lock:
            return self._files.get(digest, {}).get(name)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], shelf: _Shelf) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.shelf = shelf
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__(address, _Handler)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """More connections than there may be are closed at once."""
        return self._free.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An engine that closes its connection is no error of the run."""


class _Handler(BaseHTTPRequestHandler):
    timeout = IDLE_S
    server_version = "pace"
    sys_version = ""

    def do_GET(self) -> None:
        shelf = cast("_Server", self.server).shelf
        file = shelf.file(self.path, self.headers.get("Authorization", ""))
        try:
            stream = None if file is None else file.open("rb")
        except OSError:
            stream = None
        if stream is None:
            self.send_error(404)
            return
        with stream:
            size = stream.seek(0, 2)
            stream.seek(0)
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(size))
            self.end_headers()
            self.connection.sendfile(stream)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged: a failed fetch is a failed push, which the run records."""


def _end(server: _Server, thread: threading.Thread) -> None:
    server.shutdown()
    server.server_close()
    thread.join(IDLE_S)


def _own_address(engine: str) -> str:
    """The address from which this machine reaches the engine. Sends nothing."""
    parts = urlsplit(engine)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    family, kind, _, _, destination = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(destination)
        return str(probe.getsockname()[0])


def _is_here(host: str) -> bool:
    """Whether this machine has the address."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True
