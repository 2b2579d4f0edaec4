"""A file lock in the run's directory: one live process drives a run.

The kernel frees the lock when its holder dies, so a lock is never stale. The text in the file only names the holder.
The file is not removed. Not for directories on a network file system without flock.
"""

import fcntl
import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

from pace_async.errors import GaveUp, PaceBug, RunLocked, UsageError

LOCK_NAME = "lock"
SIZE = 512
"""Bytes of the file's text, padded with blanks."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that drives a run: its id, its start (seconds since the epoch), and what it waits for while the
    population cannot be written."""

    pid: int
    since: float
    waits_for: str = ""
    waits_since: float | None = None


class RunLock:
    """`with RunLock(run_directory):` raises RunLocked, naming the holder, if another process holds the lock."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK_NAME
        self._file: IO[str] | None = None
        self._holder: Holder | None = None

    def __enter__(self) -> Self:
        if self._file is not None:
            raise PaceBug(f"{self.path} is held by this very lock")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+")
        except OSError as error:
            raise UsageError(f"Cannot lock the run at {self.path.parent}: {error.strerror}.") from None
        if not _try_lock(file):
            known = _holder_in(file)
            file.close()
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(known.since)) if known else ""
            who = f"process {known.pid} (since {since})" if known else "another process"
            raise RunLocked(f"Run {self.path.parent.name} is driven by {who}: wait for it, or stop it first.")
        self._file, self._holder = file, Holder(os.getpid(), time.time())
        self._write(self._holder)
        return self

    def refuse_if_gone(self) -> None:
        """Raise GaveUp if the run's folder was removed or replaced."""
        if self._file is not None and not self._stands(self._file):
            raise GaveUp(
                f"The folder {self.path.parent} was removed or replaced while its run went on: nothing more can be "
                "written there, and what it held is lost unless you have a copy (`pace resume` goes on from one)."
            )

    def _stands(self, file: IO[str]) -> bool:
        try:
            return os.path.samestat(self.path.stat(), os.fstat(file.fileno()))
        except OSError:
            return False

    def waits(self, reason: str = "", since: float | None = None) -> None:
        """Write what the holder waits for, or clear it without a reason. Best effort: the disk may be full."""
        if self._file is not None and self._holder is not None:
            self._holder = replace(self._holder, waits_for=reason, waits_since=since)
            with suppress(OSError):
                self._write(self._holder)

    def _write(self, holder: Holder) -> None:
        """Overwrite in place, because a full disk has no room for new blocks."""
        if self._file is not None:
            self._file.flush()
            os.pwrite(self._file.fileno(), json.dumps(asdict(holder)).encode().ljust(SIZE), 0)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is None:
            return
        try:
            if isinstance(error, Exception):
                self.refuse_if_gone()  # the cause of whatever failed first
        finally:
            self._file.truncate(0)
            self._file.close()
            self._file = None


def _try_lock(file: IO[str]) -> bool:
    """Whether the lock was taken. Tries again, because another process's `is_driven` holds it for a moment."""
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


def wait_until_free(folder: Path) -> None:
    """Wait until no process drives the run in this folder. Returns at once if there is no run."""
    with suppress(FileNotFoundError), (folder / LOCK_NAME).open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)


def holder_of(folder: Path) -> Holder | None:
    """The holder of the run in this folder, None if there is none or it is unknown."""
    try:
        with (folder / LOCK_NAME).open() as file:
            return _holder_in(file) if is_driven(folder) else None
    except OSError:
        return None


def _holder_in(file: IO[str]) -> Holder | None:
    try:
        file.seek(0)
        record = cast("dict[str, Any]", json.loads(file.read()))
        since = record.get("waits_since")
        return Holder(
            pid=int(record["pid"]),
            since=float(record["since"]),
            waits_for=str(record.get("waits_for", "")),
            waits_since=None if since is None else float(since),
        )
    except (ValueError, KeyError, TypeError):
        return None
