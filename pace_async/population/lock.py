"""One live process to a run: a file lock in the run's directory.

The kernel frees the lock when its holder dies, however it dies, so a lock cannot be stale; the text inside the file
only says who holds it. The file stays behind. Not for directories on a network file system without flock.
"""

import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self, cast

from pace_async.errors import PaceBug, RunLocked, UsageError

LOCK_NAME = "lock"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who drives a run: process id, and since when (seconds since the epoch)."""

    pid: int
    since: float


class RunLock:
    """`with RunLock(run_directory):` raises RunLocked, naming the holder, where another process is inside already."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK_NAME
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        if self._file is not None:
            raise PaceBug(f"{self.path} is held by this very lock")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = self.path.open("a+")
        except OSError as error:
            raise UsageError(f"Cannot lock the run at {self.path.parent}: {error.strerror}.") from None
        if not _taken(file):
            known = _written(file)
            file.close()
            who = f"process {known.pid} (since {_clock(known.since)})" if known else "another process"
            raise RunLocked(f"Run {self.path.parent.name} is driven by {who}: wait for it, or stop it first.")
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "since": time.time()}))
        file.flush()
        self._file = file
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.truncate(0)
            self._file.close()
            self._file = None


def _taken(file: IO[str]) -> bool:
    """Whether the lock could be had; looked at again, because `is_driven` of another process holds it for a moment."""
    for _ in range(3):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.02)
    return False


def is_driven(folder: Path) -> bool:
    """Whether a live process drives the run in this folder."""
    try:
        with (folder / LOCK_NAME).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _written(file: IO[str]) -> Holder | None:
    try:
        file.seek(0)
        found = cast("dict[str, float]", json.loads(file.read()))
        return Holder(pid=int(found["pid"]), since=float(found["since"]))
    except (ValueError, KeyError, TypeError):
        return None


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
