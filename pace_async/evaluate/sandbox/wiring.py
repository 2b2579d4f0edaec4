"""Resources of an evaluation before its program is known: a control group, and pipes to and from its driver.

Pipes keep a bounded amount of data and are closed exactly once. Every wait on them has a deadline.

Control groups are made ahead, in the thread that removes them: the kernel takes a millisecond or two to make one, which
would hold up the event loop, and a group does not depend on the program. Invariant: each group that was made is taken
by one evaluation or removed by `close`.
"""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import anyio

from pace_async.evaluate.sandbox import cgroup
from pace_async.evaluate.sandbox.tiers import PROCESSES

AHEAD = 4
CHUNK = 1 << 16


class Descriptors:
    """Descriptors that this evaluation closes, each exactly once, because a number closed twice may be another's."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_all()

    def close_all(self) -> None:
        self.close(*self._open)

    def own(self, *descriptors: int) -> None:
        self._open.update(descriptors)

    def pipe(self) -> tuple[int, int]:
        """(read end, write end)."""
        ends = os.pipe()
        self.own(*ends)
        return ends

    def close(self, *descriptors: int) -> None:
        for descriptor in descriptors:
            if descriptor in self._open:
                self._open.remove(descriptor)
                os.close(descriptor)


class Sink:
    """The data of one pipe, read until it has carried more than `limit` bytes. `keep` is how many of the last bytes
    stay in `data`. None keeps them all, which is at most the limit and one chunk. `hear` gets each chunk first."""

    def __init__(
        self,
        descriptor: int,
        name: str,
        limit: int,
        keep: int | None = None,
        hear: Callable[[bytes], None] | None = None,
    ) -> None:
        os.set_blocking(descriptor, False)
        self._hear = hear
        self.descriptor, self.name, self.limit, self.keep = descriptor, name, limit, keep
        self.data, self.seen, self.open = bytearray(), 0, True

    @property
    def full(self) -> bool:
        return self.seen > self.limit

    @property
    def done(self) -> bool:
        """Whether nothing more will be read."""
        return not self.open or self.full

    async def read(self) -> None:
        """Wait for the pipe's next data, at most a chunk."""
        await anyio.wait_readable(self.descriptor)
        with contextlib.suppress(BlockingIOError):
            chunk = os.read(self.descriptor, CHUNK)
            self.open = bool(chunk)
            self.seen += len(chunk)
            if self._hear is not None:
                self._hear(chunk)
            self.data += chunk
            if self.keep is not None:
                del self.data[: -self.keep]

    async def read_on(self) -> None:
        """Read until the end of the pipe, or until the sink is full."""
        while not self.done:
            await self.read()


async def write_all(descriptor: int, data: bytes) -> bool:
    """Returns False if the reader has ended, whose exit will give the reason. The descriptor must not block."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view[:CHUNK]) :]
        except BlockingIOError:
            await anyio.wait_writable(descriptor)
        except BrokenPipeError:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Joinable:
    """A group, and the descriptors through which it is joined. The taker of the group closes them."""

    group: cgroup.Group
    members: tuple[int, ...]


def make_group(memory_mb: int, tasks: int) -> Joinable | None:
    """A group with these limits, if the kernel makes any. Raises OSError."""
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
    """Groups with the limits of the last request. Used from one thread."""

    def __init__(self) -> None:
        self._groups: deque[tuple[int, int, Joinable]] = deque()
        self._making = threading.Lock()
        self._closed = False

    def take(self, memory_mb: int, tasks: int) -> Joinable | None:
        """A group that is ready, or None. Others are made for the evaluations that follow."""
        ready_group = None
        while ready_group is None and self._groups:
            *limits, joinable = self._groups.popleft()
            if limits == [memory_mb, tasks]:
                ready_group = joinable
            else:
                _let_go(joinable)
        cgroup.behind(lambda: self._fill(memory_mb, tasks))
        return ready_group

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
                    joinable = make_group(memory_mb, tasks)
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
    """`job`, `answers`, `stdout` and `stderr` are this side's ends of the pipes. `given` are the driver's: standard
    input, output and error, the result pipe, and the descriptors to join the control group. `mine` are all of them."""

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
            joinable = make_group(memory_mb, PROCESSES)
        group, members = (joinable.group, joinable.members) if joinable is not None else (None, ())
        mine = Descriptors()
        mine.own(*members)
        try:
            (job_out, job), (answers, answer_in) = mine.pipe(), mine.pipe()
            (stdout, stdout_in), (stderr, stderr_in) = mine.pipe(), mine.pipe()
            descriptors = (job_out, stdout_in, stderr_in, answer_in, *members)
            return cls(mine, group, job, answers, stdout, stderr, descriptors, memory_mb)
        except BaseException:
            _clear(mine, group)
            raise

    def hand_over(self) -> None:
        """Close the driver's ends here, after it has got them."""
        self.mine.close(*self.given)
        self.given = ()  # their numbers are free, and may be another's of `mine` next

    def close(self) -> None:
        """Release everything, except a group whose last process is still ending (`cgroup.discard`)."""
        _clear(self.mine, self.group)


def _clear(mine: Descriptors, group: cgroup.Group | None) -> None:
    mine.close_all()
    if group is not None:
        cgroup.discard(group)
