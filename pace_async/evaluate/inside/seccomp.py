"""A system-call filter, written as classic BPF and installed on the calling process for good.

It refuses with EPERM what no numerical program needs and what sandboxes are escaped with: sockets, tracing, mounts, new
namespaces, io_uring, keys, eBPF, anonymous memory files that no memory limit sees. A deny list, not an allow list: it
stands behind the namespaces or Landlock, not instead of them. x86-64 and AArch64 only; elsewhere `install` says False.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Mapping
from functools import cache

from .libc import libc

_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_COLUMN = {"x86_64": 0, "aarch64": 1}
# name: (number on x86-64, number on AArch64)
_NUMBERS: dict[str, tuple[int, int]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "kill": (62, 129),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41),
    "prlimit64": (302, 261),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "semget": (64, 190),
    "setns": (308, 268),
    "setpgid": (109, 154),
    "setsid": (112, 157),
    "settimeofday": (164, 170),
    "shmget": (29, 194),
    "socket": (41, 198),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "tgkill": (234, 131),
    "tkill": (200, 130),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
# Refused only where no namespace of its own holds the program: leaving the process group, signals to others.
_GROUP = ("kill", "pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "setpgid", "setsid", "tkill")
_SPECIAL = ("clone", "clone3", "socket", "tgkill", "prlimit64")
_START_ANOTHER = {"x86_64": (56, 57, 58), "aarch64": (220,)}  # clone, fork, vfork
_NEW_NAMESPACE = 0x7E020000
_AF_UNIX = 1

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NR_OFFSET, _ARCH_OFFSET, _FIRST_ARGUMENT = 0, 4, 16


def machine() -> str:
    """The architecture whose call numbers apply, or an empty string where it is not known here."""
    name = os.uname().machine
    return name if name in _ARCH else ""


def number(name: str) -> int:
    """A system call's number here. Raises KeyError where the architecture is not known."""
    return _NUMBERS[name][_COLUMN[machine()]]


@cache  # a warm parent makes the filter of all its forks
def filter_program(arch: str, *, own_namespaces: bool, pid: int, one_thread: bool = False) -> bytes:
    """The filter, as an array of `struct sock_filter`. With `own_namespaces` (processes and network) UNIX sockets,
    sessions and signals are left alone; without, no socket can be made and the process group cannot be left. With
    `one_thread` no further thread or process can be started."""
    column = _COLUMN[arch]
    code = [(_LOAD, 0, 0, _ARCH_OFFSET), (_EQUAL, 1, 0, _ARCH[arch]), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NR_OFFSET)]
    if arch == "x86_64":
        code += [(_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL)]
    refuse, absent = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    for name, numbers in _NUMBERS.items():
        if name not in _SPECIAL and not (own_namespaces and name in _GROUP):
            code += [(_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, refuse)]
    # libc falls back from clone3, whose flags a filter cannot see, to clone.
    code += [(_EQUAL, 0, 1, _NUMBERS["clone3"][column]), (_RETURN, 0, 0, absent)]
    for number in _START_ANOTHER[arch] if one_thread else ():
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, refuse)]
    code += [
        (_EQUAL, 0, 4, _NUMBERS["clone"][column]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACE),
        (_RETURN, 0, 0, refuse),
        (_RETURN, 0, 0, _ALLOW),
    ]
    only: Mapping[str, Iterable[int]] = (
        {"socket": (_AF_UNIX,)} if own_namespaces else {"socket": (), "tgkill": (pid,), "prlimit64": (0, pid)}
    )
    for name, allowed in only.items():
        body = [(_LOAD, 0, 0, _FIRST_ARGUMENT)]
        for value in allowed:
            body += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
        body.append((_RETURN, 0, 0, refuse))
        code += [(_EQUAL, 0, len(body), _NUMBERS[name][column]), *body]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def install(*, own_namespaces: bool, one_thread: bool = False) -> bool:
    """Filter this process and all that it starts. False where the architecture or the kernel has no filter."""
    arch = machine()
    if not arch:
        return False
    code = filter_program(arch, own_namespaces=own_namespaces, pid=os.getpid(), one_thread=one_thread)
    program = _Program(len(code) // 8, code)
    no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.prctl(set_seccomp, filter_mode, ctypes.byref(program), 0, 0) == 0)
