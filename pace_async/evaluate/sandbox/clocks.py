"""How long a program worked, read from outside it.

Processor time of the program's process where it is held to one thread and can start no other process: then nothing that
it computes escapes the clock, sleeping gains nothing, and neighbours on a busy machine cost it nothing. Elsewhere wall
clock, which is never less than what it used.
"""

import time
from dataclasses import dataclass
from pathlib import Path

_SCHEDULER = 2  # the kind of per-process clock that counts nanoseconds as the scheduler sees them


@dataclass(frozen=True, slots=True)
class Moment:
    """Seconds since some beginning; `processor` is None where the process cannot be asked."""

    wall: float
    processor: float | None

    def since(self, earlier: "Moment") -> float:
        """Seconds of work between two moments."""
        if self.processor is None or earlier.processor is None:
            return self.wall - earlier.wall
        return self.processor - earlier.processor


def now(pid: int | None) -> Moment:
    """What the clocks say; `pid` is the process to ask, None for the wall clock alone."""
    try:
        # Linux numbers a process's clock by its id; Python names no function for it.
        used = None if pid is None else time.clock_gettime(~pid << 3 | _SCHEDULER)
    except OSError:  # it has ended
        used = None
    return Moment(time.perf_counter(), used)


def last_descendant(pid: int) -> int | None:
    """The process at the end of a chain of only children: the driver, behind what bubblewrap puts before it. None where
    the kernel does not say, or where the chain forks."""
    try:
        while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if len(children) > 1:
                return None
            pid = int(children[0])
    except OSError:
        return None
    return pid
