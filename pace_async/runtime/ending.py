"""Ends a run that another process drives, as Ctrl-C in its terminal would.

Invariant: only a process that holds the run's lock gets a signal. Its number alone does not say so: it may have been
written in another container, or be the number of another process by now.
"""

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from pace_async.errors import UsageError
from pace_async.population.lock import LOCK_NAME, holder_of

_DRAIN, _CANCEL = signal.SIGTERM, signal.SIGINT
"""Two signals, because a second one of the same number is lost while the first one waits to be handled."""


def ask_to_end(folder: Path, *, now: bool) -> int | None:
    """Ask the process that drives the run to drain, or to cancel what it runs. Returns its id, None if no process
    drives the run. Raises UsageError if the process cannot be reached."""
    holder = holder_of(folder)
    if holder is None:
        return None
    with _process(holder.pid) as process:
        if not _holds(holder.pid, folder / LOCK_NAME):
            if holder_of(folder) is None:
                return None
            raise UsageError(
                f"Run {folder.name} is driven by process {holder.pid} of another machine, container "
                "or user: stop it there."
            )
        for number in (_DRAIN, _CANCEL) if now else (_DRAIN,):
            with suppress(ProcessLookupError):
                _send(process, holder.pid, number)
    return holder.pid


@contextmanager
def _process(pid: int) -> Generator[int | None]:
    """A descriptor of the process, where the system has them: its number cannot pass to another process meanwhile."""
    descriptor = None
    with suppress(OSError, AttributeError):
        descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _holds(pid: int, lock: Path) -> bool:
    """Whether the process has the lock's file open. Without /proc its number must do."""
    if not Path("/proc/self/fd").is_dir():
        return True
    with suppress(OSError):
        lock_status = lock.stat()
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if os.path.samestat(file.stat(), lock_status):
                    return True
    return False


def _send(process: int | None, pid: int, number: signal.Signals) -> None:
    if process is None:
        os.kill(pid, number)
    else:
        signal.pidfd_send_signal(process, number)
