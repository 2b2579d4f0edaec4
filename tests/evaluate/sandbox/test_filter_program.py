"""The filter read as the kernel reads it, on both processors: the verdict on each call and each argument."""

import errno
import struct

import pytest

from pace_async.evaluate.sandbox.inside import calls
from pace_async.evaluate.sandbox.inside.rules import rules
from pace_async.evaluate.sandbox.inside.seccomp import filter_program

LOAD, AND, RETURN, JUMP, EQUAL, AT_LEAST, ANY_BIT = 0x20, 0x54, 0x06, 0x05, 0x15, 0x35, 0x45
ALLOW, KILL = "allow", "kill"
HIGH = 1 << 32
PID = 4242
each_arch = pytest.mark.parametrize("arch", calls.ARCHES)
each_kind = pytest.mark.parametrize("own_namespaces", [True, False], ids=["namespaces", "alone"])


def verdict(program: bytes, arch: int, number: int, arguments: tuple[int, ...] = ()) -> str | int:
    """`allow`, `kill` or the error that the call fails with."""
    padded = (*arguments, *[0] * (6 - len(arguments)))
    data = struct.pack("=IIQ6Q", number, arch, 0, *padded)
    code = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    accumulator = at = 0
    while True:
        operation, holds, fails, operand = code[at]
        at += 1
        if operation == LOAD:
            accumulator = struct.unpack_from("=I", data, operand)[0]
        elif operation == AND:
            accumulator &= operand
        elif operation == JUMP:
            at += operand
        elif operation == RETURN:
            return {0x7FFF0000: ALLOW, 0x80000000: KILL}.get(operand, operand & 0xFFFF)
        else:
            tests = {EQUAL: accumulator == operand, AT_LEAST: accumulator >= operand, ANY_BIT: accumulator & operand}
            at += holds if tests[operation] else fails


def judged(arch: str, name: str, *arguments: int, own_namespaces: bool = False, **how: bool) -> str | int:
    program = filter_program(arch, own_namespaces=own_namespaces, pid=PID, **how)
    number = calls.number_on(arch, name)
    assert number is not None
    return verdict(program, calls.ARCHES[arch], number, arguments)


@each_arch
@each_kind
def test_a_call_without_a_rule_is_allowed_and_a_refused_call_is_not(arch: str, own_namespaces: bool) -> None:
    program = filter_program(arch, own_namespaces=own_namespaces, pid=PID)
    named = rules(own_namespaces=own_namespaces, pid=PID, one_thread=False, confined=True)
    by_number = {calls.number_on(arch, name): code for name, code in named.items()}
    for number in range(700):
        found = verdict(program, calls.ARCHES[arch], number, (1, 1, 1, 1, 1, 1))
        if number not in by_number:
            assert found == ALLOW, number
        elif len(by_number[number]) == 1:
            assert found in (errno.EPERM, errno.ENOSYS), number


@each_arch
@each_kind
@pytest.mark.parametrize("confined", [True, False])
def test_only_a_program_with_a_card_may_call_its_driver(arch: str, own_namespaces: bool, confined: bool) -> None:
    with_card = filter_program(arch, own_namespaces=own_namespaces, pid=PID, confined=confined, owns=("cards",))
    without = filter_program(arch, own_namespaces=own_namespaces, pid=PID, confined=confined)
    number = calls.number_on(arch, "ioctl")
    assert number is not None
    for command in (0xC00846D6, 0xC020462B, 0x30000001, 25):  # of the card, of the driver, of unified memory
        assert verdict(with_card, calls.ARCHES[arch], number, (0, command)) == ALLOW
        assert verdict(without, calls.ARCHES[arch], number, (0, command)) == errno.EPERM
    for command in (0x5412, 0x5452, 0x8902, 0x40086602):
        assert verdict(with_card, calls.ARCHES[arch], number, (0, command)) == errno.EPERM


@each_arch
@each_kind
def test_a_program_with_processors_of_its_own_chooses_no_others(arch: str, own_namespaces: bool) -> None:
    pinned = filter_program(arch, own_namespaces=own_namespaces, pid=PID, owns=("processors",))
    free = filter_program(arch, own_namespaces=own_namespaces, pid=PID)
    number = calls.number_on(arch, "sched_setaffinity")
    assert number is not None
    assert verdict(pinned, calls.ARCHES[arch], number, (0, 8, 0)) == errno.EPERM
    assert verdict(free, calls.ARCHES[arch], number, (0, 8, 0)) == ALLOW


@pytest.mark.parametrize("number", [0, 41, 500], ids=str)
@each_kind
def test_calls_of_another_processor_and_of_x32_end_the_program(own_namespaces: bool, number: int) -> None:
    program = filter_program("x86_64", own_namespaces=own_namespaces, pid=PID)
    i386, x32 = 0x40000003, 0x40000000
    assert verdict(program, i386, number) == KILL
    assert verdict(program, calls.ARCHES["x86_64"], x32 | number) == KILL
    assert verdict(program, calls.ARCHES["aarch64"], number) == KILL
    arm = filter_program("aarch64", own_namespaces=own_namespaces, pid=PID)
    assert verdict(arm, 0x40000028, number) == KILL


EVERYWHERE: list[tuple[str, tuple[int, ...], str | int]] = [
    ("clone", (0x10000000,), errno.EPERM),
    ("clone", (0x8000 | 17,), errno.EPERM),
    ("clone", (0x3D0F00,), ALLOW),
    ("clone3", (), errno.ENOSYS),
    ("fcntl", (0, 8, 1), errno.EPERM),
    ("fcntl", (0, 10, 9), errno.EPERM),
    ("fcntl", (0, 15, 1), errno.EPERM),
    ("fcntl", (0, 4, 0o20000), errno.EPERM),
    ("fcntl", (0, HIGH | 4, HIGH | 0o24000), errno.EPERM),
    ("fcntl", (0, 4, 0o4000), ALLOW),
    ("fcntl", (0, 3, 0o20000), ALLOW),
    ("fcntl", (0, 6, 0), ALLOW),
    ("fcntl", (0, 1036, 0), errno.EPERM),
    ("ioctl", (0, 0x5401), ALLOW),
    ("ioctl", (0, 0x80045430), ALLOW),
    ("ioctl", (0, 0x5452), errno.EPERM),
    ("ioctl", (0, 0x5412), errno.EPERM),
    ("ioctl", (0, HIGH | 0x8901), errno.EPERM),
    ("ioctl", (0, 0x8902), errno.EPERM),
    ("ioctl", (0, 0x40086602), errno.EPERM),
    ("ioctl", (0, 0x40049409), ALLOW),
    ("flock", (0, 1), errno.ENOSYS),
    ("preadv2", (0, 0, 0, 0, 0, 8), errno.EPERM),
    ("preadv2", (0, 0, 0, 0, 0, HIGH | 8), errno.EPERM),
    ("preadv2", (8, 8, 8, 8, 8, 0), ALLOW),
    ("fadvise64", (0, 0, 0, 4), errno.EPERM),
    ("fadvise64", (0, 0, 0, 3), ALLOW),
    ("madvise", (0, 0, 21), errno.EPERM),
    ("madvise", (0, 0, 4), ALLOW),
    ("prctl", (1, 0), errno.EPERM),
    ("prctl", (4, 1), errno.EPERM),
    ("prctl", (15, 0), ALLOW),
    ("setrlimit", (4, 0), errno.EPERM),
    ("setrlimit", (0, 0), ALLOW),
    ("prlimit64", (0, 4, 1), errno.EPERM),
    ("prlimit64", (0, 4, HIGH), errno.EPERM),
    ("prlimit64", (0, 4, 0, 1), ALLOW),
    ("prlimit64", (0, 0, 1), ALLOW),
    ("prlimit64", (1, 0, 1), errno.EPERM),
    ("prlimit64", (HIGH | 1, 0, HIGH), errno.EPERM),
    ("socket", (2, 1, 0), errno.EPERM),
    ("socketpair", (1, 1, 0), ALLOW),
    ("socketpair", (2, 1, 0), errno.EPERM),
]
ALONE: list[tuple[str, tuple[int, ...], str | int]] = [
    ("socket", (1, 1, 0), errno.EPERM),
    ("socketpair", (1, 1 | 0o2004000, 0), ALLOW),
    ("socketpair", (1, 5, 0), ALLOW),
    ("socketpair", (1, 2, 0), errno.EPERM),
    ("socketpair", (1, 3, 0), errno.EPERM),
    ("socketpair", (1, HIGH | 2 | 0o2000000, 0), errno.EPERM),
    ("sendto", (3, 1, 1, 0, 0, 0), ALLOW),
    ("sendto", (3, 1, 1, 0, 1, 16), errno.EPERM),
    ("sendto", (3, 1, 1, 0, HIGH, 16), errno.EPERM),
    ("connect", (3, 1, 16), errno.EPERM),
    ("tgkill", (PID, PID, 6), ALLOW),
    ("tgkill", (0, PID, 6), errno.EPERM),
    ("prlimit64", (PID, 0, 1), ALLOW),
    ("prlimit64", (PID + 1, 0, 1), errno.EPERM),
    ("prlimit64", (PID, 4, 1), errno.EPERM),
    ("setpriority", (0, 0, 5), ALLOW),
    ("setpriority", (0, PID, 5), ALLOW),
    ("setpriority", (0, PID + 1, 5), errno.EPERM),
    ("setpriority", (2, 0, 5), errno.EPERM),
    ("setpriority", (HIGH | 2, 0, 5), errno.EPERM),
    ("ioprio_set", (1, 0, 0), ALLOW),
    ("ioprio_set", (1, PID + 1, 0), errno.EPERM),
    ("ioprio_set", (3, 0, 0), errno.EPERM),
    ("sched_setaffinity", (0, 8, 1), ALLOW),
    ("sched_setaffinity", (PID + 1, 8, 1), errno.EPERM),
    ("sched_setscheduler", (PID + 1, 0, 1), errno.EPERM),
    ("sched_setparam", (PID + 1, 1), errno.EPERM),
    ("sched_setattr", (PID + 1, 1, 0), errno.EPERM),
    ("openat", (0, 1, 0o1101, 0o644), ALLOW),
    ("openat", (0, 1, 0o1000), errno.EPERM),
    ("openat", (0, 1, 3), errno.EPERM),
    ("openat", (0, 1, HIGH | 3), errno.EPERM),
    ("openat", (0, 1, 0o101, 0o4755), errno.EPERM),
    ("openat", (0, 1, 0o1, 0o4755), ALLOW),
    ("openat", (0, 1, 0o2000000), ALLOW),
    ("openat2", (), errno.ENOSYS),
    ("mknodat", (0, 1, 0o102755), errno.EPERM),
    ("mknodat", (0, 1, 0o100755), ALLOW),
    ("fchmodat", (), errno.EPERM),
    ("fchownat", (), errno.EPERM),
    ("utimensat", (), errno.EPERM),
    ("fsetxattr", (), errno.EPERM),
]


@each_arch
@each_kind
@pytest.mark.parametrize(("name", "arguments", "expected"), EVERYWHERE)
def test_an_argument_is_tested_as_the_kernel_reads_it(
    arch: str, own_namespaces: bool, name: str, arguments: tuple[int, ...], expected: str | int
) -> None:
    assert judged(arch, name, *arguments, own_namespaces=own_namespaces) == expected


@each_arch
@pytest.mark.parametrize(("name", "arguments", "expected"), ALONE)
def test_without_namespaces_what_reaches_other_processes_or_files_is_refused(
    arch: str, name: str, arguments: tuple[int, ...], expected: str | int
) -> None:
    assert judged(arch, name, *arguments) == expected


def test_the_older_calls_of_one_processor_are_refused_like_the_newer() -> None:
    for name in ("chmod", "chown", "lchown", "utime", "utimes", "futimesat"):
        assert judged("x86_64", name) == errno.EPERM
        assert calls.number_on("aarch64", name) is None
    assert judged("x86_64", "open", 1, 0o1000) == errno.EPERM
    assert judged("x86_64", "open", 1, 0o102, 0o2755) == errno.EPERM
    assert judged("x86_64", "open", 1, 0o102, 0o755) == ALLOW
    assert judged("x86_64", "creat", 1, 0o4755) == errno.EPERM
    assert judged("x86_64", "inotify_init") == errno.EPERM


@each_arch
def test_in_namespaces_of_its_own_a_program_may_do_with_its_files_and_children_as_it_likes(arch: str) -> None:
    for name in ("fchmodat", "utimensat", "fsetxattr", "kill", "setsid", "connect", "truncate"):
        assert judged(arch, name, own_namespaces=True) == ALLOW
    assert judged(arch, "socket", 1, 1, 0, own_namespaces=True) == ALLOW


@each_arch
def test_a_process_that_has_yet_to_set_its_limits_may_set_them_once(arch: str) -> None:
    for name, *arguments in (("prlimit64", 0, 4, 1), ("setrlimit", 4, 1), ("prctl", 1, 9), ("prctl", 4, 0)):
        assert judged(arch, name, *arguments, own_namespaces=True, confined=False) == ALLOW
    assert judged(arch, "unshare", 0x10000000, own_namespaces=True, confined=False) == errno.EPERM


@each_arch
@each_kind
def test_a_program_of_one_thread_starts_no_other(arch: str, own_namespaces: bool) -> None:
    names = [name for name in ("clone", "fork", "vfork") if calls.number_on(arch, name) is not None]
    for name in names:
        assert judged(arch, name, 0x3D0F00, own_namespaces=own_namespaces, one_thread=True) == errno.EPERM
