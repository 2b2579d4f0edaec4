"""A memory limit of the runtime's own, where a control group can be made: one that grows ends itself, and not the
engine, the learner or whatever else the machine would choose to end.

Invariant: it holds for this process and for the candidates' warm parent, never for the engine, the learner and the
scorers: each is entered, as soon as it was started, into the groups where this process was before. Where that cannot be
done there is no limit. A runtime that was ended by it says nothing more; the rows are whole, and `pace resume` goes on.
"""

from collections.abc import Generator
from contextlib import contextmanager

from pace_async import children
from pace_async.evaluate.sandbox import cgroup

LEAST_MB = 2048


@contextmanager
def own_memory(megabytes: int | None) -> Generator[cgroup.Group | None]:
    """Within, this process may use so many MiB; by default half of what there is, at least LEAST_MB. The group, or
    None where the kernel makes none."""
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
