"""The sandbox tiers, from the strongest to none.

A tier says how to start the driver, and how the driver must confine itself before it loads the program. It starts
nothing itself. `selfcheck` proves that a tier holds on this machine.
"""

import json
import os
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar

from pace_async.evaluate.base import Limits
from pace_async.evaluate.sandbox.claims import EVERYTHING, WITHOUT_LANDLOCK
from pace_async.evaluate.sandbox.inside import calls, landlock
from pace_async.evaluate.sandbox.inside.driver import START
from pace_async.evaluate.sandbox.inside.warm import START as FORK
from pace_async.evaluate.sandbox.python_files import (
    PythonAccess,
    PythonFiles,
    extended,
    locate,
    outside,
    reached_by_others,
)

HERE = Path(__file__).parent
SCRATCH_MB = 64
SHARED_MEMORY_MB = 16
LIBRARY_HEADROOM_MB = 512
PROCESSES = 64
INSIDE = "/pace"
INSTALL = "apt install bubblewrap"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Variables by which numerical libraries are told how many threads to start."""
VARIABLES = {"HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", **dict.fromkeys(THREADS, "1")}


@dataclass(frozen=True, slots=True)
class Plan:
    """A command line, the environment of its first process, and the driver's own confinement.
    `imports` is added to a program's import path, `descriptors` are given to the first process besides its pipes,
    `scratch_owner` is the user to whom the private directory must belong, where one is needed. `wrapped` says that the
    first process is bubblewrap: it takes a system-call filter for itself, and passes the driver's exit code on, as 128
    and the number where it was a signal."""

    argv: Sequence[str]
    environment: dict[str, str]
    confinement: dict[str, Any] = field(default_factory=dict[str, Any])
    imports: Sequence[Path] = ()
    descriptors: Sequence[int] = ()
    scratch_owner: int | None = None
    wrapped: bool = False


@dataclass(frozen=True, kw_only=True)
class Tier(ABC):
    """One way to confine a candidate. `gaps` are the attacks that the self-check found it not to stop here (names of
    `claims.PROBES`). `name` is bubblewrap, rlimits or none, as in the run's row. `isolates`: candidates are isolated
    from this machine. `needs_scratch`: the parent must make (and remove) a private directory for each evaluation.
    `remedy` is what to install for a stronger tier, empty for the strongest. `claims` are the attacks that it must stop
    in the self-check to be used here."""

    gaps: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    name: ClassVar[str]
    isolates: ClassVar[bool] = True
    needs_scratch: ClassVar[bool] = True
    remedy: ClassVar[str] = INSTALL

    @abstractmethod
    def plan(self, limits: Limits, hidden: Sequence[Path], scratch: Path | None) -> Plan:
        """`hidden` are folders that the candidate must not be able to read, wherever they lie."""

    def warm(self, hidden: Sequence[Path], imports: Sequence[str], control: int) -> Plan | None:
        """A parent that imports these modules and then forks candidates on requests through this descriptor. None if a
        fork would be less confined than with `plan`, or if that cannot be checked: without namespaces a candidate could
        reach a parent of the same user."""
        return None


@dataclass(frozen=True)
class Bubblewrap(Tier):
    """Own mount, process, network, IPC and host namespaces. Only Python's files, read-only. A fresh user id if this
    process is root, otherwise a user namespace. `proc` is false if a container forbids a new /proc."""

    executable: str
    proc: bool = True
    name = "bubblewrap"
    needs_scratch = False
    remedy = ""
    claims: tuple[str, ...] = field(default=EVERYTHING, kw_only=True)

    def plan(self, limits: Limits, hidden: Sequence[Path], scratch: Path | None) -> Plan:
        root = os.getuid() == 0
        user = ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"] if root else ["--unshare-user"]
        confinement: dict[str, Any] = {
            "limits": _resource_limits(limits, PROCESSES),
            "drop_capabilities": True,
            **_owned(limits),
        }
        if root:
            confinement["uid"] = _fresh_uid()
        if calls.MACHINE:
            confinement["seccomp"] = "namespaces"
        python = extended(locate(), (*limits.readable, *limits.libraries))
        view = _Shown(python, tuple(hidden), self.proc, True, limits.scratch_mb, limits.devices)
        locked_in = _bubblewrapped(self.executable, tuple(user), view, tuple(_libraries(limits).items()))
        argv = [*locked_in, *_driver(python.executable, INSIDE)]
        return Plan(argv, {}, confinement, python.imports, wrapped=True)

    def warm(self, hidden: Sequence[Path], imports: Sequence[str], control: int) -> Plan | None:
        if not self.proc or not calls.MACHINE:
            return None
        sizes = {"/tmp": SCRATCH_MB << 20, "/dev/shm": SHARED_MEMORY_MB << 20}
        request: dict[str, Any] = {
            "control": control,
            "path": [str(path) for path in locate().imports],
            "imports": list(imports),
            "sizes": sizes,
            "kept": [str(path) for path in locate().paths if any(path.is_relative_to(folder) for folder in sizes)],
        }
        needed = ["SYS_ADMIN", "SETUID", "SETGID"]
        user: list[str] = []
        if os.getuid() != 0:
            needed.append("SETFCAP")  # to give its own user, who is root there, another id in a namespace below
            user = ["--unshare-user", "--uid", "0", "--gid", "0"]
            request["user"] = {"uid": os.getuid(), "gid": os.getgid()}
        for name in needed:
            user += ["--cap-add", f"CAP_{name}"]
        command = _python(locate().executable, FORK.format(folder=INSIDE))
        locked_in = _bubblewrapped(self.executable, tuple(user), _Shown(locate(), tuple(hidden)))
        return Plan([*locked_in, *command, json.dumps(request)], {})


@dataclass(frozen=True)
class Rlimits(Tier):
    """Own session and process group, resource limits, clean environment, private directory. In addition the kernel's
    means without privileges: Landlock for files, a system-call filter for the network and for leaving the group. As
    root also a fresh user id."""

    name = "rlimits"
    claims: tuple[str, ...] = field(
        kw_only=True, default_factory=lambda: EVERYTHING if landlock.version() else WITHOUT_LANDLOCK
    )

    def plan(self, limits: Limits, hidden: Sequence[Path], scratch: Path | None) -> Plan:
        assert scratch is not None
        python = extended(locate(), (*limits.readable, *limits.libraries))
        uid = _fresh_uid() if os.getuid() == 0 else None
        alone = uid is not None
        reached = reached_by_others(python) if alone else PythonAccess(python.executable, python.imports, ())
        confinement: dict[str, Any] = {
            "limits": _resource_limits(limits, PROCESSES if alone else PROCESSES + _tasks_of_user()),
            "drop_capabilities": True,
            "die_with": os.getpid(),
            **_owned(limits),
        }
        if uid is not None:
            confinement["uid"] = uid
        if landlock.version():
            readable, listable = outside([*python.paths, *python.targets], hidden)
            devices = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")]
            confinement["landlock"] = {
                "readable": [str(path) for path in (*readable, HERE / "inside")],
                "listable": [str(path) for path in listable],
                "writable": [str(scratch), *devices, *map(str, limits.devices)],
            }
        if calls.MACHINE:
            confinement["seccomp"] = "alone"
        environment = {**VARIABLES, **_libraries(limits), "HOME": str(scratch), "TMPDIR": str(scratch)}
        argv = _driver(reached.executable, str(HERE))
        return Plan(argv, environment, confinement, reached.imports, reached.descriptors, uid)


@dataclass(frozen=True)
class NoSandbox(Tier):
    """Only a separate session and a clean environment. For code that you trust like your own."""

    name = "none"
    isolates = False

    def plan(self, limits: Limits, hidden: Sequence[Path], scratch: Path | None) -> Plan:
        assert scratch is not None
        environment = {**VARIABLES, **_libraries(limits), "HOME": str(scratch), "TMPDIR": str(scratch)}
        python = locate()
        argv = _driver(python.executable, str(HERE))
        confinement = {"die_with": os.getpid(), **_owned(limits)}
        return Plan(argv, environment, confinement, python.imports)


class NotInstalled(Exception):
    """A tier cannot be tried here. The text is the reason, without a full stop."""


TierFactory = Callable[[], Sequence[Tier]]
"""The variants of a tier on this machine, the strongest first. Raises NotInstalled."""


def bubblewrap() -> Sequence[Tier]:
    """With a new /proc and without, which a container may forbid. Raises NotInstalled."""
    executable = shutil.which("bwrap")
    if executable is None:
        raise NotInstalled("bubblewrap is not installed")
    return Bubblewrap(executable), Bubblewrap(executable, proc=False)


def rlimits() -> Sequence[Tier]:
    """What the kernel gives without privileges."""
    return (Rlimits(),)


def no_sandbox() -> Sequence[Tier]:
    """For code that is trusted."""
    return (NoSandbox(),)


@dataclass(frozen=True, slots=True)
class _Shown:
    """What bubblewrap shows of this machine. `alone` says that a candidate is process 2, with bubblewrap as process 1
    beside it."""

    python: PythonFiles
    hidden: tuple[Path, ...]
    proc: bool = True
    alone: bool = False
    scratch_mb: int = SCRATCH_MB
    devices: tuple[Path, ...] = ()


@lru_cache(maxsize=32)
def _bubblewrapped(
    executable: str, user: tuple[str, ...], view: _Shown, variables: tuple[tuple[str, str], ...] = ()
) -> tuple[str, ...]:
    """The command line up to what is to be run: the same for every launch in a slot of an evaluator."""
    python, proc = view.python, view.proc
    argv = [executable, "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-net"]
    argv += ["--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL", *user]
    # First, so that what is mounted below /tmp (an environment that lies there) is not covered by it.
    argv += ["--perms", "1777", "--size", str(view.scratch_mb << 20), "--tmpfs", "/tmp"]
    for folder in python.parents:
        argv += ["--perms", "0755", "--dir", str(folder)]
    for link, target in python.links:
        argv += ["--symlink", target, link]
    for path in python.paths:
        argv += ["--ro-bind", str(path), str(path)]
    argv += ["--perms", "0755", "--dir", INSIDE, "--ro-bind", str(HERE / "inside"), f"{INSIDE}/inside"]
    for folder in view.hidden:
        below_hidden = any(folder.is_relative_to(other) for other in view.hidden if other != folder)
        if not below_hidden and any(folder.is_relative_to(path) for path in python.paths):
            argv += ["--perms", "0000", "--tmpfs", str(folder), "--remount-ro", str(folder)]
    if proc:
        argv += ["--proc", "/proc"]
    if proc and view.alone:  # bubblewrap is process 1, without limits: of the same user, its memory could be written
        argv += ["--perms", "0555", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1"]
    argv += ["--dev", "/dev"]
    above = {parent for device in view.devices for parent in device.parents} - {Path("/"), Path("/dev"), Path("/tmp")}
    for folder in sorted(above):
        argv += ["--perms", "0755", "--dir", str(folder)]
    for device in view.devices:
        argv += ["--dev-bind", str(device), str(device)]
    argv += ["--perms", "1777", "--size", str(SHARED_MEMORY_MB << 20), "--tmpfs", "/dev/shm"]
    argv += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]
    for name, value in (*VARIABLES.items(), *variables):
        argv += ["--setenv", name, value]
    # Started with nothing: bubblewrap stays as process 1, whose first environment can be read.
    return (*argv, "--")


def _owned(limits: Limits) -> dict[str, Any]:
    """What a slot owns, as the driver is told."""
    return {"processors": limits.processors, "cards": bool(limits.devices)}


def _libraries(limits: Limits) -> dict[str, str]:
    """The variable with which the driver's libraries are found, where they lie apart."""
    return {"LD_LIBRARY_PATH": ":".join(map(str, limits.libraries))} if limits.libraries else {}


def _driver(executable: Path, folder: str) -> list[str]:
    return _python(executable, START.format(folder=folder))


def _python(executable: Path, code: str) -> list[str]:
    return [str(executable), "-sSPB", "-c", code]


def _resource_limits(limits: Limits, tasks: int) -> dict[str, int]:
    return {
        "RLIMIT_AS" if limits.address_space else "RLIMIT_DATA": (limits.memory_mb + LIBRARY_HEADROOM_MB) << 20,
        "RLIMIT_CORE": 1,  # at 0 the kernel still starts the program of a piped core pattern, at 1 it does not
        "RLIMIT_CPU": limits.processor_limit_s + 1,
        "RLIMIT_FSIZE": limits.scratch_mb << 20,
        "RLIMIT_NOFILE": 256,
        "RLIMIT_NPROC": tasks,
        "RLIMIT_SIGPENDING": 256,  # counted for the user as a whole
        "RLIMIT_MSGQUEUE": 0,
    }


@cache
def mapped_users() -> tuple[int, int]:
    """(first, count) of the user ids that candidates are given."""
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        inside, _, length = (int(part) for part in line.split())
        if inside + length > 0x70000000:
            return 0x60000000, 0x10000000
    return 65534, 1


def _fresh_uid() -> int:
    """An unused user id, so that no other process can be signalled and no count of processes is shared."""
    first, count = mapped_users()
    return first + secrets.randbelow(count)


@cache
def _tasks_of_user() -> int:
    """Threads that this user runs already: RLIMIT_NPROC counts them too."""
    count, user = 0, os.getuid()
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and folder.stat().st_uid == user:
                count += len(list((folder / "task").iterdir()))
        except OSError:
            continue
    return count
