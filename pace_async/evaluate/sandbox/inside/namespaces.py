"""Namespaces and mounts for one candidate, made by a process that bubblewrap has confined already.

They equal those of a candidate that bubblewrap starts itself. The read-only files of Python are there already. Every
writable folder is mounted new over the old one. No standard module offers these calls.
"""

import ctypes
import os
import signal
import stat
from collections.abc import Mapping, Sequence

from .libc import libc

libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
_OWN_PROCESSES, _OWN_USER = 0x20000000, 0x10000000
_OWN_REST = 0x4E020000  # network, IPC, host name, control groups, mounts
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_PROGRAMS = 1, 2, 4, 8
_REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
_COVERED = ("sys", "sysrq-trigger", "irq", "bus")  # below /proc; bubblewrap makes the same read-only


def fork(own: int) -> int:
    """Fork this process, which must have a single thread, as process 1 of a new process namespace: its id here, 0
    there. `own` is a descriptor of this process's own process namespace, where what it forks next belongs again.
    Raises OSError."""
    _unshare(_OWN_PROCESSES)
    child = -1
    try:
        child = os.fork()
    finally:
        if child != 0:
            libc.setns(own, _OWN_PROCESSES)  # where this fails, so does the next call
    return child


def leave() -> None:
    """Give this process its own namespaces of every other kind, except the user's. Raises OSError."""
    _unshare(_OWN_REST)


def mount(sizes: Mapping[str, int], kept_paths: Sequence[str]) -> None:
    """Make new mounts over every folder that is writable or shows other processes. `sizes` are the bytes of each memory
    file system, by folder. Paths in `kept_paths` below them are mounted again, read-only as before, with the mounts
    that hide parts of them. Raises OSError."""
    _mount("none", "/", "", _RECURSIVE | _PRIVATE)
    open_paths = [(path, os.open(path, os.O_PATH)) for path in kept_paths]
    for folder, size in sizes.items():
        _mount("tmpfs", folder, "tmpfs", _NO_SUID | _NO_DEVICES, f"mode=1777,size={size}")
    for path, descriptor in open_paths:
        _make_place(path, stat.S_ISDIR(os.fstat(descriptor).st_mode))
        _mount(f"/proc/self/fd/{descriptor}", path, "", _BIND | _RECURSIVE)
        os.close(descriptor)
    _mount("devpts", "/dev/pts", "devpts", _NO_SUID | _NO_PROGRAMS, "newinstance,ptmxmode=0666,mode=620")
    _mount("proc", "/proc", "proc", _NO_SUID | _NO_DEVICES | _NO_PROGRAMS)
    for name in _COVERED:
        path = f"/proc/{name}"
        if os.access(path, os.W_OK):
            _mount(path, path, "", _BIND | _RECURSIVE)
            _mount("none", path, "", _BIND | _REMOUNT | _READ_ONLY | _NO_SUID | _NO_DEVICES | _NO_PROGRAMS)


def die_with_parent() -> None:
    """Have this process killed when the process that forked it ends."""
    libc.prctl(1, signal.SIGKILL)


def become(uid: int, gid: int) -> None:
    """Leave the root of a user namespace for one of its own, as this user. Raises OSError."""
    _unshare(_OWN_USER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} 0 1"), ("gid_map", f"{gid} 0 1")):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(descriptor, text.encode())
        os.close(descriptor)


def _make_place(path: str, folder: bool) -> None:
    """Make a mount point for a folder or a file."""
    parts = path.split("/")
    for end in range(2, len(parts) + folder):
        parent = "/".join(parts[:end])
        if not os.path.lexists(parent):
            os.mkdir(parent, 0o755)  # noqa: PTH102 (pathlib costs time here)
    if not folder:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def _unshare(kinds: int) -> None:
    if libc.unshare(kinds) != 0:
        raise OSError(ctypes.get_errno(), "no namespaces for a candidate")


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    if libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"cannot mount {target}")
