"""What an evaluation has of its own before its program is known: a control group, and pipes to and from its driver."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from pace_async.evaluate import cgroup
from pace_async.evaluate.pipes import Descriptors
from pace_async.evaluate.stock import Stock, made
from pace_async.evaluate.tiers import PROCESSES


@dataclass(slots=True)
class Wiring:
    """`job`, `answers`, `stdout` and `stderr` are this side's ends of the pipes; `given` are the driver's: standard
    input, output and error, the result pipe, and what to join the control group through. `mine` are all of them."""

    mine: Descriptors
    group: cgroup.Group | None
    job: int
    answers: int
    stdout: int
    stderr: int
    given: Sequence[int]
    memory_mb: int

    @classmethod
    def open(cls, memory_mb: int, grouped: bool, stock: Stock | None = None) -> Self:
        """Not `grouped`, or where the kernel makes no groups: without one. It comes from the stock while that has any.
        Raises OSError."""
        joinable = stock.take(memory_mb, PROCESSES) if grouped and stock is not None else None
        if grouped and joinable is None:
            joinable = made(memory_mb, PROCESSES)
        group, members = (joinable.group, joinable.members) if joinable is not None else (None, ())
        mine = Descriptors()
        mine.own(*members)
        try:
            (job_out, job), (answers, answer_in) = mine.pipe(), mine.pipe()
            (stdout, stdout_in), (stderr, stderr_in) = mine.pipe(), mine.pipe()
            given = (job_out, stdout_in, stderr_in, answer_in, *members)
            return cls(mine, group, job, answers, stdout, stderr, given, memory_mb)
        except BaseException:
            _clear(mine, group)
            raise

    def hand_over(self) -> None:
        """The driver has its ends now: close them here."""
        self.mine.close(*self.given)
        self.given = ()  # their numbers are free, and may be another's of `mine` next

    def close(self) -> None:
        """Nothing of it is left, but for a group whose last process is still on its way out (`cgroup.discard`)."""
        _clear(self.mine, self.group)


def _clear(mine: Descriptors, group: cgroup.Group | None) -> None:
    mine.close_all()
    if group is not None:
        cgroup.discard(group)
