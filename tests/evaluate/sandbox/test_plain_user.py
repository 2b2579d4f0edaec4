"""Where neither the runtime nor a candidate is root, both are the same user: what separates them then."""

import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from pace_async.evaluate.sandbox.inside import calls, landlock
from tests.evaluate.sandbox.hostile import OUTSIDE, named
from tests.evaluate.sandbox.plain_user import as_plain_user, checked_as_plain_user, why_not

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux"),
    pytest.mark.skipif(not calls.MACHINE, reason="the system-call filter does not know this processor"),
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "possible"),
]
needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
needs_landlock = pytest.mark.skipif(landlock.version() < 1, reason="the kernel has no Landlock")
each_tier = pytest.mark.parametrize(
    "tier",
    [
        pytest.param("bubblewrap", marks=needs_bwrap),
        pytest.param("rlimits", marks=needs_landlock),
        "filter_alone",
    ],
)
libc = ctypes.CDLL(None, use_errno=True)
REMOVE = 0


@dataclass(frozen=True, slots=True)
class Outside:
    """What this user has outside of the sandbox: a process, a file, two sockets for datagrams, a shared segment."""

    process: psutil.Process
    file: Path
    sockets: dict[str, socket.socket]
    segment: int

    def seen(self) -> object:
        """All that a candidate could change of it."""
        status = self.file.stat()
        kept = (status.st_mode, status.st_uid, status.st_gid, status.st_size, status.st_mtime_ns)
        process = self.process
        scheduling = os.sched_getscheduler(process.pid), process.nice(), tuple(process.cpu_affinity() or ())
        limits = process.rlimit(psutil.RLIMIT_NOFILE), process.ionice()
        segment = libc.shmat(self.segment, None, 0o10000) != -1
        return process.status() not in ("zombie", "dead"), kept, attributes(self.file), scheduling, limits, segment

    def received(self) -> list[str]:
        """Sockets to which something came."""
        found: list[str] = []
        for name, channel in self.sockets.items():
            with contextlib.suppress(BlockingIOError):
                channel.recv(16)
                found.append(name)
        return found


def attributes(file: Path) -> list[str]:
    try:
        return sorted(os.listxattr(file))
    except OSError:  # a file system without them
        return []


@pytest.fixture
def outside(tmp_path: Path) -> Generator[Outside]:
    file = tmp_path / "file"
    file.write_text("kept")
    with contextlib.suppress(OSError):
        os.setxattr(file, "user.there", b"1")
    segment = libc.shmget(0, 4096, 0o1600)
    names = [f"\0pace-test-{os.getpid()}", str(tmp_path / "log")]
    with contextlib.ExitStack() as stack:
        stack.callback(libc.shmctl, segment, REMOVE, None)
        sockets: dict[str, socket.socket] = {}
        for name in names:
            sockets[name] = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            sockets[name].bind(name)
            sockets[name].setblocking(False)
        sleeping = subprocess.Popen(["sleep", "300"])
        stack.callback(sleeping.wait)
        stack.callback(sleeping.kill)
        yield Outside(psutil.Process(sleeping.pid), file, sockets, segment)


# What each tier lets through here, and where the reason stands: its own children and files in namespaces of its own;
# without Landlock the memory of this user's processes.
ITS_OWN = {"bubblewrap": {"priority_of_user", "own_set_id"}, "rlimits": set[str](), "filter_alone": {"memory"}}


@pytest.mark.long
@each_tier
@pytest.mark.fault("Programs as weapons", "metadata writes")
@pytest.mark.fault("Programs as weapons", "signals by file ownership")
@pytest.mark.fault("Programs as weapons", "datagrams re-aimed")
@pytest.mark.fault("Programs as weapons", "priorities and limits of others")
def test_a_program_of_the_same_user_reaches_neither_its_processes_nor_its_files_nor_its_sockets(
    tier: str, outside: Outside
) -> None:
    before = outside.seen()
    given = {
        "pid": outside.process.pid,
        "path": str(outside.file),
        "names": list(outside.sockets),
        "segment": outside.segment,
    }
    done = as_plain_user(tier, named(OUTSIDE), given)
    assert outside.seen() == before
    assert outside.received() == []
    assert {name.split(" of ")[0] for name in done} <= ITS_OWN[tier]


@pytest.mark.long
@needs_bwrap
@pytest.mark.fault("Programs as weapons", "process 1 of the sandbox written to")
@pytest.mark.parametrize("timed", [False, True], ids=["untimed", "timed"])
def test_the_first_process_of_the_sandbox_cannot_be_written_to(timed: bool) -> None:
    program = """
    import os
    def f(x):
        opened = []
        for pid in {1, os.getppid(), *filter(str.isdigit, os.listdir("/proc"))} - {os.getpid(), str(os.getpid())}:
            for name in ("mem", "task/1/mem", "root", "cwd", "environ", "fd", "maps"):
                for path in (f"/proc/{pid}/{name}", f"/proc/self/task/../../{pid}/{name}"):
                    try:
                        os.close(os.open(path, os.O_RDWR if "mem" in name else os.O_RDONLY))
                        opened.append(path)
                    except OSError:
                        pass
        return opened
    """
    assert as_plain_user("bubblewrap", program, timed=timed) == []


@pytest.mark.long
@each_tier
def test_the_self_check_holds_for_a_plain_user(tier: str) -> None:
    proven, gaps, broken = checked_as_plain_user(tier)
    if tier == "filter_alone":  # the same claims as with Landlock, where this kernel has it
        assert (proven, set(gaps), broken) == (
            landlock.version() < 1,
            {"environment", "files", "writes", "processes"},
            "",
        )
    else:
        assert (proven, gaps, broken) == (True, [], "")


LIMITS_OF_PROCESS_1 = """
import os, resource
def f(names):
    done = []
    for name in names:
        try:
            resource.prlimit(1, getattr(resource, name), (0, 0))
            done.append(name)
        except PermissionError:
            pass
    resource.prlimit(os.getpid(), resource.RLIMIT_NPROC, resource.getrlimit(resource.RLIMIT_NPROC))
    return done
"""


@pytest.mark.long
@pytest.mark.fault("Programs as weapons", "limits of process 1 of the sandbox")
@each_tier
def test_a_program_sets_no_limit_of_process_1(tier: str) -> None:
    """Bubblewrap's process 1 has the program's user. With no processor time left the kernel would end it."""
    names = ["RLIMIT_CPU", "RLIMIT_AS", "RLIMIT_NOFILE", "RLIMIT_FSIZE"]
    assert as_plain_user(tier, LIMITS_OF_PROCESS_1, names) == []
