"""What an evaluation owns before its program is known: a control group, and pipes to and from its driver.

Control groups are made ahead, in the thread that removes them: the kernel takes a millisecond or two to make one, which
would hold up the event loop, and a group does not depend on the program. Invariant: each group that was made is taken
by one evaluation or removed by `close`.
"""

import os
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from pace_async.evaluate.sandbox import cgroup
from pace_async.evaluate.sandbox.pipes import Descriptors
from pace_async.evaluate.sandbox.tiers import PROCESSES

AHEAD = 4


@dataclass(frozen=True, slots=True)
class Joinable:
    """A group, and the descriptors through which it is joined. Who takes the group closes them."""

    group: cgroup.Group
    members: tuple[int, ...]


def made(memory_mb: int, tasks: int) -> Joinable | None:
    """A group with these limits, where the kernel makes any. Raises OSError."""
    hierarchy = cgroup.find()
    group = hierarchy.create(memory_mb, tasks) if hierarchy else None
    if group is None:
        return None
    try:
        return Joinable(group, group.open_members())
    except OSError:
        cgroup.discard(group)
        raise


class ControlGroupPool:
    """Groups with the limits that were asked for last. Used from one thread."""

    def __init__(self) -> None:
        self._groups: deque[tuple[int, int, Joinable]] = deque()
        self._making = threading.Lock()
        self._closed = False

    def take(self, memory_mb: int, tasks: int) -> Joinable | None:
        """A group that is ready, or None. Others are made for the evaluations that follow."""
        found = None
        while found is None and self._groups:
            *limits, joinable = self._groups.popleft()
            if limits == [memory_mb, tasks]:
                found = joinable
            else:
                _let_go(joinable)
        cgroup.behind(lambda: self._fill(memory_mb, tasks))
        return found

    def close(self) -> None:
        """Remove the groups that were not taken."""
        with self._making:
            self._closed = True
        while self._groups:
            _let_go(self._groups.popleft()[-1])

    def _fill(self, memory_mb: int, tasks: int) -> None:
        """Runs in the thread. A failure is not reported here: an evaluation that needs a group makes one, and fails."""
        while True:
            with self._making:
                if self._closed or len(self._groups) >= AHEAD:
                    return
                try:
                    joinable = made(memory_mb, tasks)
                except OSError:
                    return
                if joinable is None:
                    return
                self._groups.append((memory_mb, tasks, joinable))


def _let_go(joinable: Joinable) -> None:
    for descriptor in joinable.members:
        os.close(descriptor)
    cgroup.discard(joinable.group)


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
    def open(cls, memory_mb: int, grouped: bool, pool: ControlGroupPool | None = None) -> Self:
        """Without a control group if not `grouped` or if the kernel makes none. The group comes from the pool if that
        has one. Raises OSError."""
        joinable = pool.take(memory_mb, PROCESSES) if grouped and pool is not None else None
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
