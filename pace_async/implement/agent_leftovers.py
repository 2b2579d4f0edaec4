"""Ends the processes of an agent whose guard was killed or stopped, which then could not end them (`agent_guard`).

A process belongs to a call if it has the call's mark in its environment, if it is in the guard's session, or if it was
adopted, has no terminal, and works in the call's folder or holds a file of it. So does each process below such a one. A
process that clears its environment, leaves its session and the folder, closes every file and loses its parent is not
found: the kernel keeps nothing that ties it to the call.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MARK = "PACE_AGENT_CALL"
"""The variable that names a call. Its value is random."""
PATIENCE_S = 10.0
_PROC = Path("/proc")
_EXITING = 0x4  # PF_EXITING


@dataclass(frozen=True, slots=True)
class _Seen:
    pid: int
    state: str
    parent: int
    session: int
    has_terminal: bool
    ending: bool


def end_leftovers(mark: str, session: int, folder: Path) -> None:
    """Kill what belongs to the call until nothing is found, for PATIENCE_S seconds at most. Does nothing without
    /proc."""
    until, settled = time.monotonic() + PATIENCE_S, False
    while not settled and time.monotonic() < until:
        pids, settled = _belonging(f"{MARK}={mark}".encode(), session, folder.resolve())
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.0 if settled else 0.005)


def _belonging(mark: bytes, session: int, folder: Path) -> tuple[set[int], bool]:
    """(what belongs to the call, whether no more can appear). What is just ending has no folder any more, and its
    children have not been adopted yet."""
    alive = {process.pid: process for process in _processes() if process.state not in "ZX"}
    adopters = {1, me := os.getpid()}  # an ancestor of this process adopts what loses its parent below it
    while (me := alive[me].parent if me in alive else 0) and me not in adopters:
        adopters.add(me)
    alive = {pid: process for pid, process in alive.items() if pid not in adopters}
    pids = {
        process.pid
        for process in alive.values()
        if process.session == session
        or _has(process.pid, mark)
        or (process.parent in adopters and not process.has_terminal and _works_in(process.pid, folder))
    }
    while below := {process.pid for process in alive.values() if process.parent in pids} - pids:
        pids |= below
    return pids, not pids and not any(process.ending and process.parent in adopters for process in alive.values())


def _processes() -> Iterator[_Seen]:
    if not _PROC.is_dir():
        return
    for place in _PROC.iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended
                rest = (place / "stat").read_text(errors="replace").rpartition(")")[2]
                state, parent, _, session, terminal, _, flags = rest.split()[:7]
                ending = bool(int(flags) & _EXITING)
                yield _Seen(int(place.name), state, int(parent), int(session), terminal != "0", ending)


def _has(pid: int, mark: bytes) -> bool:
    try:
        return mark in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # of another user, or ended
        return False


def _works_in(pid: int, folder: Path) -> bool:
    """Whether it works in the folder, or holds a file of it."""
    place = _PROC / str(pid)
    try:
        files = [place / "cwd", *(place / "fd").iterdir()]
    except OSError:
        return False
    for file in files:
        with contextlib.suppress(OSError):
            if file.readlink().is_relative_to(folder):
                return True
    return False
