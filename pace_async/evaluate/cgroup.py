"""A control group for each evaluation, where this process may make one: the only limit that holds a whole family.

Versions 1 and 2. A group is made fresh each time (a shared one is held up by its zombies), joined by the driver itself
through descriptors that it inherits, and removed when its last process is gone. Where none can be made, `find` says
None and the limits of single processes have to do.
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

from pace_async.evaluate import leftovers

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where groups can be made: version 1 has a folder for each controller, version 2 one for both."""

    memory: Path
    pids: Path
    version: int

    def create(self, memory_mb: int, tasks: int) -> "Group | None":
        """A new, empty group with its limits set, or None if the kernel refuses."""
        name = leftovers.prefix() + secrets.token_hex(6)
        group = Group(tuple(dict.fromkeys((self.memory / name, self.pids / name))), self.version)
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
            _write(group.folders[-1] / "pids.max", str(tasks))
        except OSError:
            group.remove()
            return None
        return group


@dataclass(frozen=True, slots=True)
class Group:
    """One evaluation's group."""

    folders: tuple[Path, ...]
    version: int

    @property
    def memory(self) -> Path:
        return self.folders[0]

    def open_members(self) -> tuple[int, ...]:
        """Descriptors; whoever writes "0" to each of them is in the group. Raises OSError."""
        opened: list[int] = []
        try:
            for folder in self.folders:
                opened.append(os.open(folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
        except OSError:
            for descriptor in opened:
                os.close(descriptor)
            raise
        return tuple(opened)

    def out_of_memory(self) -> bool:
        """Whether the kernel has killed in this group for want of memory."""
        file = self.memory / ("memory.oom_control" if self.version == 1 else "memory.events")
        try:
            counts = dict(line.split() for line in file.read_text().splitlines())
        except (OSError, ValueError):
            return False
        return int(counts.get("oom_kill", 0)) > 0

    def remove(self) -> bool:
        """Whether the group is gone; it is not while a process of it is still on its way out."""
        gone = True
        for folder in self.folders:
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                gone = False
        return gone


_leaving: deque[Group] = deque()
_removing = threading.Lock()
_remover = ThreadPoolExecutor(1, thread_name_prefix="control-groups")


def discard(group: Group) -> None:
    """Remove this group soon, and those of earlier evaluations whose last process was then still on its way out. Not
    waited for: the kernel takes some milliseconds for each, in which an event loop would stand still."""
    _leaving.append(group)
    behind(all_removed)


def behind(work: Callable[[], object]) -> None:
    """Call it in the thread of the control groups."""
    _remover.submit(work)


def all_removed() -> bool:
    """Whether every group that was discarded is gone; what can be removed now is."""
    with _removing:
        stuck: list[Group] = []
        while _leaving:
            group = _leaving.popleft()
            if not group.remove():
                stuck.append(group)
        _leaving.extend(stuck)
        return not stuck


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
    try:
        own = _own_groups(Path("/proc/self/cgroup").read_text())
        mounts = _mounts(Path("/proc/self/mountinfo").read_text())
    except OSError:
        return []
    found: list[Hierarchy] = []
    if "memory" in mounts and "pids" in mounts:
        memory, pids = (mounts[name] for name in ("memory", "pids"))
        inner = (memory / own.get("memory", ""), pids / own.get("pids", ""))
        found += [Hierarchy(*inner, 1), Hierarchy(memory, pids, 1)]
    if "" in mounts:
        top = mounts[""]
        folder = top / own.get("", "")
        while folder.is_relative_to(top):
            control = folder / "cgroup.subtree_control"
            if control.is_file() and {"memory", "pids"} <= set(control.read_text().split()):
                found.append(Hierarchy(folder, folder, 2))
            if folder == top:
                break
            folder = folder.parent
    return found


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


def _write(file: Path, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _write_if_there(file: Path, text: str) -> None:
    with contextlib.suppress(OSError):
        _write(file, text)
