"""Namespaces and mounts for one candidate, made by a process that bubblewrap has locked in already.

What bubblewrap gives to every candidate that it starts itself, and only that: the read-only files of Python are there
before, everything that can be written is mounted afresh over what was there. No standard module makes these calls.
"""

import ctypes
import os
import signal
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import seccomp

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
# Called with the interpreter's lock held, so that the child has it too.
_clone = ctypes.PyDLL(None, use_errno=True).syscall
_OWN = 0x6E020000  # processes, network, IPC, host name, control groups, mounts
_OWN_USER = 0x10000000
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_PROGRAMS = 1, 2, 4, 8
_REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
_COVERED = ("sys", "sysrq-trigger", "irq", "bus")  # below /proc; bubblewrap makes the same read-only


def fork() -> int:
    """Fork this process, which must have a single thread, into namespaces of its own, as their process 1: its id here,
    0 there. Raises OSError."""
    number = seccomp.number("clone")
    child = int(_clone(*map(ctypes.c_long, (number, _OWN | signal.SIGCHLD, 0, 0, 0, 0))))
    if child < 0:
        raise OSError(ctypes.get_errno(), "no namespaces for a candidate")
    return child


def mount(sizes: Mapping[str, int], kept: Sequence[str]) -> None:
    """Fresh mounts over all that could be written or tells of others: `sizes` are the bytes of each memory file
    system, by folder. What is `kept` below them stands there again afterwards, as read-only as it was, with what hides
    a part of it. Raises OSError."""
    _mount("none", "/", "", _RECURSIVE | _PRIVATE)
    held = [(Path(path), os.open(path, os.O_PATH)) for path in kept]
    for folder, size in sizes.items():
        _mount("tmpfs", folder, "tmpfs", _NO_SUID | _NO_DEVICES, f"mode=1777,size={size}")
    for path, descriptor in held:
        _make_place(path, stat.S_ISDIR(os.fstat(descriptor).st_mode))
        _mount(f"/proc/self/fd/{descriptor}", str(path), "", _BIND | _RECURSIVE)
        os.close(descriptor)
    _mount("devpts", "/dev/pts", "devpts", _NO_SUID | _NO_PROGRAMS, "newinstance,ptmxmode=0666,mode=620")
    _mount("proc", "/proc", "proc", _NO_SUID | _NO_DEVICES | _NO_PROGRAMS)
    for name in _COVERED:
        path = f"/proc/{name}"
        if os.access(path, os.W_OK):
            _mount(path, path, "", _BIND | _RECURSIVE)
            _mount("none", path, "", _BIND | _REMOUNT | _READ_ONLY | _NO_SUID | _NO_DEVICES | _NO_PROGRAMS)


def die_with_parent() -> None:
    """Be killed when the process that forked this one ends."""
    _libc.prctl(1, signal.SIGKILL)


def set_dumpable(dumpable: bool) -> None:
    """Whether a process of the same user may look into this one."""
    _libc.prctl(4, int(dumpable), 0, 0, 0)


def become(uid: int, gid: int) -> None:
    """Leave the root of a user namespace for one of its own, as this user. Raises OSError."""
    if _libc.unshare(_OWN_USER) != 0:
        raise OSError(ctypes.get_errno(), "no user namespace for a candidate")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} 0 1")
    Path("/proc/self/gid_map").write_text(f"{gid} 0 1")


def _make_place(path: Path, folder: bool) -> None:
    """Something to mount a folder or a file on."""
    for parent in reversed(path.parents):
        if not parent.exists():
            parent.mkdir(0o755)
    if folder:
        path.mkdir(0o755, exist_ok=True)
    else:
        path.touch(0o644)


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    if _libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"cannot mount {target}")
