"""A Redis server for tests, on the loopback interface, which keeps nothing on disk."""

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager

END_S = 30.0
READY = "Ready to accept connections"


@contextmanager
def redis_server() -> Generator[str]:
    """HOST:PORT of a server. It lasts as long as the context."""
    with tempfile.TemporaryDirectory(prefix="pace-redis-") as folder:
        process, address = _begun(folder)
        while process is None:  # another program took the port
            process, address = _begun(folder)
        try:
            yield address
        finally:
            process.kill()
            process.communicate(timeout=END_S)


def _begun(folder: str) -> "tuple[subprocess.Popen[str] | None, str]":
    """A server that answers, or None if it has ended."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = shutil.which("redis-server") or "redis-server"
    command = [program, "--bind", "127.0.0.1", "--port", str(port), "--dir", folder, "--save", "", "--daemonize", "no"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if READY in line:
            return process, f"127.0.0.1:{port}"
    process.wait(END_S)
    if any("in use" in line for line in said):
        return None, ""
    raise RuntimeError("".join(said))
