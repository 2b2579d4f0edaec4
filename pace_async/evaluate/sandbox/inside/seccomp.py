"""The system-call filter of a candidate: made of `rules`, and permanently installed on the calling process.

x86-64 and AArch64 only. On other processors `install` returns False.
"""

import ctypes
import os
from functools import cache

from .bpf import assemble
from .calls import ARCHES, MACHINE, number_on
from .libc import libc
from .rules import rules


@cache  # a warm parent makes the filter of all its forks
def filter_program(
    arch: str,
    *,
    own_namespaces: bool,
    pid: int,
    one_thread: bool = False,
    confined: bool = True,
    owns: tuple[str, ...] = (),
) -> bytes:
    """The filter, as an array of `struct sock_filter`. With `own_namespaces` (processes and network) UNIX sockets,
    sessions, signals and the metadata of files are allowed. Without, no socket can be made, the process group cannot be
    left, and `pid` is the only process that the program may name. With `one_thread` no further thread or process can be
    started. A process that is not confined yet gets a filter that is not `confined`. `owns` as in
    `rules`."""
    refused = rules(own_namespaces=own_namespaces, pid=pid, one_thread=one_thread, confined=confined, owns=owns)
    numbered = [(number_on(arch, name), code) for name, code in refused.items()]
    pieces = sorted((number, code) for number, code in numbered if number is not None)
    return assemble(ARCHES[arch], arch == "x86_64", pieces)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def install(*, own_namespaces: bool, one_thread: bool = False, owns: tuple[str, ...] = ()) -> bool:
    """Filter this process and its child processes. Returns False if the architecture or the kernel has no filter."""
    arch = MACHINE
    if not arch:
        return False
    pid = 0 if own_namespaces else os.getpid()
    code = filter_program(arch, own_namespaces=own_namespaces, pid=pid, one_thread=one_thread, owns=owns)
    program = _Program(len(code) // 8, code)
    no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.prctl(set_seccomp, filter_mode, ctypes.byref(program), 0, 0) == 0)
