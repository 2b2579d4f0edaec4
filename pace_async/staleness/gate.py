"""Which leases may open, and which finished rollouts train next: a hard staleness bound that throws nothing away.

L is the learner's version, V the lowest version that any replica serves (V <= L), eta the bound, B the group size.

Invariants, for every L:
- Feasible: for every d, at most (d - L + 1) * B open, unshipped leases have a deadline <= d, so the updates
  L, L+1, ..., d that may still train them have room for them all.
- A rollout trained by update L has deadline >= L, so its oldest token is at most eta versions old.
- admitted = trained + skipped + aborted + expired + open.

Earliest deadline first among the *complete* leases. A group ships only if the remaining leases stay feasible. Only
*open* leases are counted, because cumulative counters deadlock when a step is discarded. Not a queue: nothing here
waits, sleeps or does I/O.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter


@dataclass(frozen=True, slots=True, order=True)
class Lease:
    """An open lease. `deadline` is the last version of the learner that may train it."""

    deadline: int
    lease: int


EARLIEST = attrgetter("deadline", "lease")
"""The order of leases, several times faster than that of the class."""


def deadline_of(served: int, bound: int) -> int:
    """The deadline of a lease admitted while version `served` is served."""
    return served + bound


def may_admit(open_leases: int, lag: int, *, bound: int, size: int) -> bool:
    """Whether one more lease may open. `open_leases` counts in flight, buffered and in training. `lag` is L - V."""
    return open_leases < (bound + 1 - lag) * size


def is_feasible(waiting: Iterable[Lease], learner: int, size: int) -> bool:
    """Whether the open, unshipped leases can all still be trained in time if update `learner` comes next."""
    return _fits(waiting, learner, size, spare=1)


def choose_group(complete: Sequence[Lease], waiting: Sequence[Lease], learner: int, size: int) -> list[Lease] | None:
    """The next group to train from version `learner`, sorted by lease id, or None to wait.

    `complete` are the finished rollouts. `waiting` are all open leases that are not shipped, `complete` among them. The
    candidates are the B earliest deadlines among the complete. They ship if and only if the remaining leases fit into
    the following updates: for every d, #{remaining, deadline <= d} <= (d - learner) * size.
    """
    if len(complete) < size:
        return None
    group = sorted(complete, key=EARLIEST)[:size]
    group_ids = {lease.lease for lease in group}
    remaining = [lease for lease in waiting if lease.lease not in group_ids]
    if not _fits(remaining, learner, size, spare=0):
        return None
    return sorted(group, key=lambda lease: lease.lease)


def _fits(leases: Iterable[Lease], learner: int, size: int, *, spare: int) -> bool:
    for count, deadline in enumerate(sorted(lease.deadline for lease in leases), start=1):
        if count > (deadline - learner + spare) * size:
            return False
    return True
