"""Control groups made ahead, in the thread that removes them.

The kernel takes a millisecond or two for a group, in which an event loop would stand still, and none of it depends on
the program. Invariant: each group that was made is taken by one evaluation or removed by `close`.
"""

import os
import threading
from collections import deque
from dataclasses import dataclass

from pace_async.evaluate import cgroup

AHEAD = 4


@dataclass(frozen=True, slots=True)
class Joinable:
    """A group, and the descriptors through which it is joined. Whoever takes it closes them."""

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


class Stock:
    """Groups with the limits that were asked for last. Used from one thread."""

    def __init__(self) -> None:
        self._groups: deque[tuple[int, int, Joinable]] = deque()
        self._making = threading.Lock()
        self._closed = False

    def take(self, memory_mb: int, tasks: int) -> Joinable | None:
        """One that stands ready, or None. Others are made for who comes next."""
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
        """Remove what nobody took."""
        with self._making:
            self._closed = True
        while self._groups:
            _let_go(self._groups.popleft()[-1])

    def _fill(self, memory_mb: int, tasks: int) -> None:
        """In the thread. A group that cannot be made is missed by nobody: whoever needs one will be told why."""
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
