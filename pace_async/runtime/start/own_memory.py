"""The runtime's memory limit, if a control group can be made.

With it, the kernel ends a runtime that grows too large, and not the engine, the learner or another process of the
machine. Invariant: the limit holds for this process and for the candidates' warm parent, never for the engine, the
learner and the scorers. Each of these is moved, right after its start, into the groups where this process was before.
If that is not possible there is no limit. A runtime ended by the limit prints nothing more. The rows are complete, and
`pace resume` goes on.
"""

from collections.abc import Generator
from contextlib import contextmanager

from pace_async import children
from pace_async.evaluate.sandbox import cgroup

LEAST_MB = 2048


@contextmanager
def own_memory(megabytes: int | None) -> Generator[cgroup.Group | None]:
    """Inside the context this process may use so many MiB, by default half of the machine's memory, at least LEAST_MB.
    Yields the group, or None if the kernel makes none."""
    most = megabytes or max(LEAST_MB, cgroup.memory_mb() // 2)
    home = cgroup.home()
    group = cgroup.memory_only(most) if home is not None else None
    if home is None or group is None:
        yield None
        return
    try:
        if not (cgroup.enter(group.memory) and cgroup.enter(home) and cgroup.enter(group.memory)):
            group.lift()
            yield None
            return
        children.entered.append(home / cgroup.MEMBERS)
        try:
            yield group
        finally:
            children.entered.remove(home / cgroup.MEMBERS)
    finally:
        cgroup.enter(home)
        cgroup.discard(group)
