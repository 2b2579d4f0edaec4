"""A program that tries to escape. It is text for the sandbox, never imported. `selfcheck` runs it and reads its result.

`probe(target)` reports for each attempt whether it was stopped. No attempt changes anything outside: modes, times and
priorities are set to their present values. It leaves a grandchild behind that tries to outlive it.
"""

import contextlib
import ctypes
import fcntl
import mmap
import os
import resource
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)


def probe(target: dict[str, Any]) -> dict[str, bool]:
    """`target`: variables, files, folders, cards, port, pid and megabytes to try, given by the self-check."""
    stopped = {
        "environment": set(os.environ) <= set(target["variables"]) and not _environments(target["canary"]),
        "files": not any(_read(Path(file)) for file in target["files"]),
        "writes": not any(_writable(Path(folder)) for folder in target["folders"]),
        "cards": not any(_opens(node) for node in target["cards"]),
        "processes": not any(_memory(pid) for pid in {1, os.getppid(), target["pid"], *_processes()} - {os.getpid()}),
        "network": not _connects(target["port"]) and not _aims(target["port"]),
        "signals": not _signals(target["pid"]),
        "priorities": not _priorities(target["pid"]),
        "metadata": not any(_metadata(file) for file in (*target["files"], os.__file__)),
        "locks": not _done(lambda: _with_library(lambda file: fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB))),
        "watches": libc.inotify_init1(0) < 0,
        "cache": not _cache(),
        "core": not _core(),
        "memory": not _maps(target["megabytes"]),
        "user": os.getuid() != 0,
    }
    _leave_a_grandchild()
    return stopped


def _done(*attempts: Callable[[], object]) -> bool:
    """Whether any of them succeeds."""
    for attempt in attempts:
        with contextlib.suppress(OSError, ValueError):  # setrlimit raises the latter
            attempt()
            return True
    return False


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 (as few modules as can be)
    except OSError:
        return []


def _environments(canary: str) -> list[int]:
    """Processes whose environment can be read and holds the canary."""
    return [pid for pid in _processes() if canary in _read(Path("/proc", str(pid), "environ"))]


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def _writable(folder: Path) -> bool:
    file = folder / f"pace-was-here-{os.getpid()}"
    return _done(lambda: (file.touch(), file.unlink()))


def _opens(node: str) -> bool:
    """Whether a device file can be opened as a library would."""
    return _done(lambda: os.close(os.open(node, os.O_RDWR)))


def reach(nodes: list[str]) -> list[str]:
    """Those device files that can be opened."""
    return [node for node in nodes if _opens(node)]


def _memory(pid: int) -> bool:
    """Whether its memory can be opened for writing."""
    return _done(lambda: os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR)))


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


def _aims(port: int) -> bool:
    """Whether a socket that was made as one of a pair can be aimed at another."""
    with contextlib.suppress(OSError):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        name = f"\0pace-{port}-datagrams"
        with ours, theirs:
            return _done(lambda: ours.connect(name), lambda: theirs.sendto(b"", name))
    return False


def _signals(pid: int) -> bool:
    """Directly, or by owning a file that sends signals when data arrives."""
    reader, writer = os.pipe()
    try:
        return _done(lambda: os.kill(pid, 0), lambda: fcntl.fcntl(reader, fcntl.F_SETOWN, pid))
    finally:
        os.close(reader)
        os.close(writer)


def _priorities(pid: int) -> bool:
    return _done(
        lambda: os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid)),
        lambda: os.sched_setaffinity(pid, os.sched_getaffinity(pid)),
        lambda: os.sched_setparam(pid, os.sched_getparam(pid)),
        lambda: resource.prlimit(pid, resource.RLIMIT_CORE, resource.prlimit(pid, resource.RLIMIT_CORE)),
    )


def _metadata(file: str) -> bool:
    try:
        now = os.stat(file)  # noqa: PTH116
    except OSError:
        return False
    mark = "user.pace-was-here"
    return _done(
        lambda: os.chmod(file, stat.S_IMODE(now.st_mode)),  # noqa: PTH101
        lambda: os.chown(file, now.st_uid, now.st_gid),
        lambda: os.utime(file, ns=(now.st_atime_ns, now.st_mtime_ns)),
        lambda: (os.setxattr(file, mark, b""), os.removexattr(file, mark)),
    )


def _with_library(act: Callable[[int], object]) -> object:
    """With a descriptor of a file that every candidate may read."""
    file = os.open(os.__file__, os.O_RDONLY)
    try:
        return act(file)
    finally:
        os.close(file)


def _cache() -> bool:
    """Whether it can ask, or decide, which pages of a file are in memory."""

    def resident(file: int) -> None:
        with mmap.mmap(file, mmap.PAGESIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as pages:
            start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
            if libc.mincore(ctypes.c_void_p(start), ctypes.c_size_t(1), ctypes.create_string_buffer(1)) != 0:
                raise OSError(ctypes.get_errno())

    def at_once(file: int) -> None:
        with contextlib.suppress(BlockingIOError):  # an answer as well
            os.preadv(file, [bytearray(1)], 0, os.RWF_NOWAIT)

    return _done(
        lambda: _with_library(resident),
        lambda: _with_library(at_once),
        lambda: _with_library(lambda file: os.posix_fadvise(file, 0, 1, os.POSIX_FADV_DONTNEED)),
    )


def _core() -> bool:
    """Whether a crash of this process, or of a program that it starts, could be handed to a program outside. A limit
    that was 0 before the sandbox cannot be raised to 1."""
    get_dumpable, set_dumpable = 3, 4
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    lowered = hard != 0 and (soft != 1 or _done(lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, hard))))
    return lowered or libc.prctl(get_dumpable) != 0 or libc.prctl(set_dumpable, 1) == 0


def _maps(megabytes: int) -> bool:
    try:
        mmap.mmap(-1, megabytes << 20).close()
    except (OSError, MemoryError, ValueError):
        return False
    return True


def _leave_a_grandchild() -> None:
    """Returns once it is there, if it may be."""
    with contextlib.suppress(OSError):
        child = os.fork()
        if child == 0:
            with contextlib.suppress(OSError):
                os.setsid()
            if os.fork() == 0:
                time.sleep(10)  # longer than anyone waits for it, where nothing ends it
            os._exit(0)
        os.waitpid(child, 0)
