"""A program that tries to get out. Text for the sandbox, never imported; `selfcheck` runs it and reads what it got.

`probe(target)` says for each attempt whether it was stopped. It leaves a grandchild behind that tries to outlive it.
"""

import contextlib
import mmap
import os
import socket
import time
from pathlib import Path
from typing import Any


def probe(target: dict[str, Any]) -> dict[str, bool]:
    """`target`: variables, files, folders, port, pid and megabytes to try, given by the self-check."""
    found = {
        "environment": set(os.environ) <= set(target["variables"]) and not _environments(target["canary"]),
        "files": not any(_read(Path(file)) for file in target["files"]),
        "writes": not any(_writable(Path(folder)) for folder in target["folders"]),
        "network": not _connects(target["port"]),
        "signals": not _signals(target["pid"]),
        "memory": not _maps(target["megabytes"]),
        "user": os.getuid() != 0,
    }
    _leave_a_grandchild()
    return found


def _environments(canary: str) -> list[str]:
    """Processes whose environment can be read and holds the canary."""
    try:
        names = [folder.name for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    except OSError:
        return []
    return [name for name in names if canary in _read(Path("/proc", name, "environ"))]


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def _writable(folder: Path) -> bool:
    file = folder / f"pace-was-here-{os.getpid()}"
    try:
        file.touch()
        file.unlink()
    except OSError:
        return False
    return True


def _connects(port: int) -> bool:
    targets: list[tuple[int, int, Any]] = [
        (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port)),
        (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", port)),
        (socket.AF_UNIX, socket.SOCK_STREAM, f"\0pace-{port}"),
    ]
    for family, kind, address in targets:
        with contextlib.suppress(OSError), socket.socket(family, kind) as channel:
            channel.settimeout(1.0)
            channel.connect(address)
            return True
    return False


def _signals(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _maps(megabytes: int) -> bool:
    try:
        mmap.mmap(-1, megabytes << 20).close()
    except (OSError, MemoryError, ValueError):
        return False
    return True


def _leave_a_grandchild() -> None:
    with contextlib.suppress(OSError):
        if os.fork() == 0:
            with contextlib.suppress(OSError):
                os.setsid()
            if os.fork() == 0:
                time.sleep(10)  # longer than anyone waits for it, where nothing ends it
            os._exit(0)
