"""Gives up every right that a program does not need, in the only order that works, before it is loaded.

`confine` takes the parent's request (`evaluate.tiers.Confinement`, as JSON) and raises OSError if any part fails. Then
no `ready` frame is sent, and the evaluation counts as a failure of the machine.
"""

import contextlib
import ctypes
import os
import resource
import signal
import struct
from collections.abc import Mapping
from typing import Any

from . import landlock, seccomp
from .libc import libc

_CAPABILITY_VERSION = 0x20080522


def confine(confinement: Mapping[str, Any]) -> None:
    """Join the control groups, close files, drop the user, set limits, drop capabilities, stay on the given processors,
    filter system calls."""
    for descriptor in confinement.get("cgroups", ()):
        join(descriptor)
    files = confinement.get("landlock")  # the files are named while all of them can still be reached
    if files is not None and not landlock.restrict(**files):
        raise OSError("the kernel refused Landlock")
    uid = confinement.get("uid")
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    for name, limit in confinement.get("limits", {}).items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        soft = value - 1 if name == "RLIMIT_CPU" else value  # SIGXCPU, which tells why, comes before SIGKILL
        resource.setrlimit(kind, (soft, value))
    if confinement.get("drop_capabilities"):
        drop_capabilities()
        libc.prctl(4, 0)  # not dumpable: no core, and its memory is closed to other processes of the user
    parent = confinement.get("die_with")
    if parent is not None:
        libc.prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    processors = confinement.get("processors")
    if processors:
        os.sched_setaffinity(0, processors)
    mode = confinement.get("seccomp")
    owns = tuple(name for name in ("processors", "cards") if confinement.get(name))
    if mode is not None and not seccomp.install(
        own_namespaces=mode == "namespaces", one_thread=bool(confinement.get("one_thread")), owns=owns
    ):
        raise OSError("the kernel refused the system-call filter")


def join(descriptor: int) -> None:
    """The control group whose members this lists. Raises OSError."""
    os.write(descriptor, b"0")
    os.close(descriptor)


def drop_capabilities() -> None:
    """Drop them permanently, so that no program can be started with more. Raises OSError."""
    with contextlib.suppress(OSError):
        libc.prctl(47, 4, 0, 0, 0)  # clear the ambient set
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    if libc.capset(header, struct.pack("=6I", *([0] * 6))) != 0:
        raise OSError(ctypes.get_errno(), "cannot drop capabilities")
