"""A control group for each evaluation, if this process may make one: the only limit on all processes of a candidate.

Memory and processes are bounded. If the kernel has a controller for it, groups share the processors evenly: a group
with many processes has the same weight as one with a single process. Memory and processor time are counted for the
group as a whole. Supports versions 1 and 2. Each evaluation gets a new group, because zombies would block a shared one.
The driver joins it itself through inherited descriptors, and it is removed when its last process has ended. If no group
can be made, `find` returns None, and only the limits of single processes apply.
"""

import contextlib
import os
import secrets
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pace_async.evaluate.sandbox import leftovers

MEBIBYTE = 1 << 20
MEMBERS = "cgroup.procs"
_VERSION_1 = ("failcnt", "max_usage_in_bytes", "limit_in_bytes")
SHARES = {1: ("cpu.shares", "1024"), 2: ("cpu.weight", "100")}
"""The weight of a single process of a user's, for each version."""


@dataclass(frozen=True, slots=True)
class ControllerFolders:
    """A folder for each controller. Version 1 has at most one hierarchy for each controller, and version 2 has one for
    all. `cpu` shares processors, and `cpuacct` counts their time. None if the kernel does not offer it to us."""

    memory: Path
    pids: Path
    cpu: Path | None
    cpuacct: Path | None
    version: int

    @property
    def folders(self) -> tuple[Path, ...]:
        """Each folder once."""
        folders = (self.memory, self.pids, self.cpu, self.cpuacct)
        return tuple(dict.fromkeys(folder for folder in folders if folder is not None))


@dataclass(frozen=True, slots=True)
class Hierarchy(ControllerFolders):
    """Where groups can be made."""

    def create(self, memory_mb: int, tasks: int | None) -> "Group | None":
        """A new, empty group with its limits set, or None if the kernel refuses. Without `tasks` processes are not
        limited."""
        name = leftovers.prefix() + secrets.token_hex(6)
        memory, pids = self.memory / name, self.pids / name
        cpu, cpuacct = (where / name if where is not None else None for where in (self.cpu, self.cpuacct))
        group = Group(memory, pids, cpu, cpuacct, self.version)
        try:
            for folder in group.folders:
                folder.mkdir()
            limit = str(memory_mb * MEBIBYTE)
            if self.version == 1:
                _write(group.memory / "memory.limit_in_bytes", limit)
                _write_if_there(group.memory / "memory.memsw.limit_in_bytes", limit)
            else:
                _write(group.memory / "memory.max", limit)
                _write_if_there(group.memory / "memory.swap.max", "0")
                _write_if_there(group.memory / "memory.oom.group", "1")
            if tasks is not None:
                _write(group.pids / "pids.max", str(tasks))
            if group.cpu is not None:
                file, weight = SHARES[self.version]
                _write(group.cpu / file, weight)
        except OSError:
            group.remove()
            return None
        return group


@dataclass(frozen=True, slots=True)
class Group(ControllerFolders):
    """One evaluation's group."""

    def open_members(self) -> tuple[int, ...]:
        """Descriptors. A process that writes "0" to each of them joins the group. Raises OSError."""
        opened: list[int] = []
        try:
            for folder in self.folders:
                opened.append(os.open(folder / MEMBERS, os.O_WRONLY | os.O_CLOEXEC))
        except OSError:
            for descriptor in opened:
                os.close(descriptor)
            raise
        return tuple(opened)

    def members(self) -> list[int]:
        """Ids of its processes."""
        try:
            return [int(line) for line in (self.memory / MEMBERS).read_text().split()]
        except OSError:
            return []

    def out_of_memory(self) -> bool:
        """Whether the kernel has killed in this group because the group reached its own limit. Where the machine, or a
        group above, ran out of memory, the kernel counts a kill here too: the limit distinguishes the two."""
        if self.version == 2:
            counts = _counts(self.memory / "memory.events")
            return counts.get("oom_kill", 0) > 0 and counts.get("oom", 1) > 0
        killed = _counts(self.memory / "memory.oom_control").get("oom_kill", 1)  # old kernels only count failures
        failed, most, limit = (_number(self.memory / f"memory.{name}") for name in _VERSION_1)
        return killed > 0 and (failed > 0 or most >= limit - MEBIBYTE)  # new kernels no longer count failures

    def processor_s(self) -> float | None:
        """Processor seconds of all present and past processes of the group. None if the kernel does not count them."""
        if self.version == 2:
            microseconds = _counts(self.memory / "cpu.stat").get("usage_usec")
            return None if microseconds is None else microseconds / 1e6
        return None if self.cpuacct is None else _number(self.cpuacct / "cpuacct.usage") / 1e9

    def lift(self) -> None:
        """Remove its memory limit."""
        unlimited = {1: "-1", 2: "max"}[self.version]
        for name in ("memory.memsw.limit_in_bytes", "memory.limit_in_bytes", "memory.max"):
            _write_if_there(self.memory / name, unlimited)

    def remove(self) -> bool:
        """Remove the group. Returns whether it is gone, which is false while one of its processes is still ending."""
        is_gone = True
        for folder in self.folders:
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                is_gone = False
        return is_gone


_leaving: deque[Group] = deque()
_removing = threading.Lock()
_remover = ThreadPoolExecutor(1, thread_name_prefix="control-groups")


def discard(group: Group) -> None:
    """Remove this group soon, and those of earlier evaluations whose last process was still ending. Does not wait,
    because the kernel takes some milliseconds for each, which would block the event loop."""
    _leaving.append(group)
    behind(all_removed)


def behind(work: Callable[[], object]) -> None:
    """To be called in the thread of the control groups."""
    _remover.submit(work)


def all_removed() -> bool:
    """Remove the discarded groups that can be removed now. Returns whether all are gone."""
    with _removing:
        stuck: list[Group] = []
        while _leaving:
            group = _leaving.popleft()
            if not group.remove():
                stuck.append(group)
        _leaving.extend(stuck)
        return not stuck


@cache
def memory_mb() -> int:
    """MiB of memory that this process may use: the machine's, or the limit of its control groups."""
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    own, mounts = _of_this_process()
    for name, file in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
        if name in mounts:
            for folder in (mounts[name] / own.get(name, ""), mounts[name]):
                most = min(most, _number(folder / file) or most)
    return most // MEBIBYTE


def memory_only(megabytes: int) -> Group | None:
    where = find()
    if where is None:
        return None
    return Hierarchy(where.memory, where.memory, None, None, where.version).create(megabytes, None)


def home() -> Path | None:
    """The group that counts this process's memory now, in the hierarchy where groups can be made."""
    where = find()
    if where is None:
        return None
    own, mounts = _of_this_process()
    name = "memory" if where.version == 1 else ""
    if name not in mounts:
        return None
    folder = mounts[name] / own.get(name, "")
    return folder if (folder / MEMBERS).exists() else None


def enter(folder: Path) -> bool:
    """Whether this process is in that group now."""
    try:
        _write(folder / MEMBERS, "0")
    except OSError:
        return False
    return True


@cache
def find() -> Hierarchy | None:
    """The first place where a group with limits can really be made."""
    for hierarchy in _candidates():
        group = hierarchy.create(64, 8)
        if group is not None:
            with contextlib.suppress(OSError):
                for descriptor in group.open_members():
                    os.close(descriptor)
                group.remove()
                return hierarchy
            group.remove()
    return None


def _candidates() -> list[Hierarchy]:
    own, mounts = _of_this_process()
    hierarchies: list[Hierarchy] = []
    if "memory" in mounts and "pids" in mounts:
        inner = {name: mounts[name] / own.get(name, "") for name in mounts}
        for where in (inner, mounts):
            memory, pids = where["memory"], where["pids"]
            hierarchies.append(Hierarchy(memory, pids, where.get("cpu"), where.get("cpuacct"), 1))
            hierarchies.append(Hierarchy(memory, pids, None, None, 1))
    if "" in mounts:
        top = mounts[""]
        folder = top / own.get("", "")
        while folder.is_relative_to(top):
            control = folder / "cgroup.subtree_control"
            controllers = set(control.read_text().split()) if control.is_file() else set[str]()
            if {"memory", "pids"} <= controllers:
                hierarchies.append(Hierarchy(folder, folder, folder if "cpu" in controllers else None, None, 2))
            if folder == top:
                break
            folder = folder.parent
    return hierarchies


def _of_this_process() -> tuple[Mapping[str, str], Mapping[str, Path]]:
    """As `_own_groups` and `_mounts`. Empty where the kernel reports none."""
    try:
        return (
            _own_groups(Path("/proc/self/cgroup").read_text()),
            _mounts(Path("/proc/self/mountinfo").read_text()),
        )
    except OSError:
        return {}, {}


def _own_groups(text: str) -> Mapping[str, str]:
    """Controller (empty for version 2) to this process's path below the mount, without a leading slash."""
    groups: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path.lstrip("/")
    return groups


def _mounts(text: str) -> Mapping[str, Path]:
    """Controller (empty for version 2) to where its hierarchy is mounted."""
    mounts: dict[str, Path] = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        point = Path(before.split(" ")[4])
        if kind == "cgroup2":
            mounts.setdefault("", point)
        elif kind == "cgroup":
            for option in options.split(","):
                mounts.setdefault(option, point)
    return mounts


def _counts(file: Path) -> dict[str, int]:
    """The numbers by name, from lines of a name and a number. Empty if the file cannot be read."""
    try:
        return {name: int(number) for name, number in (line.split() for line in file.read_text().splitlines())}
    except (OSError, ValueError):
        return {}


def _number(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


def _write(file: Path, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _write_if_there(file: Path, text: str) -> None:
    with contextlib.suppress(OSError):
        _write(file, text)
