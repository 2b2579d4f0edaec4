"""Landlock: a process permanently gives up access to every file that is not named, also for its child processes.

No privilege and no namespace is needed, only a kernel of 5.13 or later. It hides contents, not the existence of files
(stat still works), and it cannot hide a folder below one that is named: name the siblings instead.
"""

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterable

from .libc import libc

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_READ = _EXECUTE | _READ_FILE | _READ_DIR


def version() -> int:
    """The kernel's Landlock version, 0 if there is none."""
    return max(0, int(libc.syscall(_CREATE, None, 0, 1)))


def restrict(*, readable: Iterable[str], listable: Iterable[str], writable: Iterable[str]) -> bool:
    """Allow opening only these paths and those below them from now on, `listable` only as directories. Missing paths
    are ignored. Returns False if the kernel has no Landlock."""
    abi = version()
    if abi < 1:
        return False
    every = (1 << 13) - 1 | (1 << 13 if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0) | (_IOCTL if abi >= 5 else 0)
    network = 3 if abi >= 4 else 0
    scoped = 3 if abi >= 6 else 0  # abstract sockets and signals that leave the domain
    attributes = struct.pack("=QQQ", every, network, scoped)[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    ruleset = libc.syscall(_CREATE, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    try:
        for paths, rights in ((readable, _READ), (listable, _READ_DIR), (writable, every)):
            for path in paths:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                    _allow(ruleset, path, rights & every)
        if libc.prctl(38, 1, 0, 0, 0) != 0:
            return False
        return bool(libc.syscall(_RESTRICT, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not os.path.isdir(path):  # noqa: PTH112 (pathlib costs start-up time here)
            rights &= _ON_FILES
        rule = struct.pack("=Qi", rights, descriptor)
        if libc.syscall(_ADD, ruleset, 1, rule, 0) != 0:
            raise OSError(ctypes.get_errno(), f"landlock refuses {path}")
    finally:
        os.close(descriptor)
