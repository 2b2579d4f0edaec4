"""How training data is kept fresh (`--staleness-policy`).

    pace   hard bound, nothing thrown away: see `gate`. The default.
    soft   the same admission, but groups ship in the order of completion. The mean age stays near what the admission
           allows. The maximum has no bound: a straggler is trained however old it is.
    drop   running rollouts do not count for admission. A rollout that is too old is discarded when the learner looks
           for a group, and its lease is closed as expired. This gives more raw samples at many threads but wastes
           finished evaluations, the slow ones first: training data is biased towards programs that evaluate fast.

Invariants: a group holds `size` finished rollouts, sorted by lease id. `pace` and `drop` choose none that is older than
the bound. Only `drop` expires leases. Pure: values in, values out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from pace_async.registry.staleness_policies import STALENESS_POLICIES
from pace_async.staleness.gate import Lease, choose_group, may_admit


@dataclass(frozen=True, slots=True)
class CompleteRollout:
    """A complete rollout: its lease, and the oldest weight version among its tokens."""

    lease: Lease
    oldest: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Lease ids. `group` trains next, in ascending order. If it is empty, the learner waits. `expired` are closed
    first, untrained."""

    group: tuple[int, ...] = ()
    expired: tuple[int, ...] = ()


NOTHING = Choice()


class PolicyFunction(Protocol):
    """Type of the code of an entry in `registry.staleness_policies`."""

    def __call__(
        self, finished: Sequence[CompleteRollout], running: Sequence[Lease], /, *, learner: int, bound: int, size: int
    ) -> Choice:
        """As `choose`."""
        ...


def admits(policy: str, *, running: int, held: int, lag: int, bound: int, size: int) -> bool:
    """Whether one more lease may open. `held` counts buffered and in training. `lag`: versions of the learner that are
    not served yet."""
    counted = running + held if STALENESS_POLICIES[policy].counts_running else held
    return may_admit(counted, lag, bound=bound, size=size)


def chooses(policy: str, finished: int, size: int) -> bool:
    """Whether `choose` can give more than NOTHING for so many finished rollouts: at most moments of a run it cannot."""
    return finished >= size or (finished > 0 and STALENESS_POLICIES[policy].discards)


def choose(
    policy: str,
    finished: Sequence[CompleteRollout],
    running: Sequence[Lease],
    *,
    learner: int,
    bound: int,
    size: int,
) -> Choice:
    """What the learner, idle at version `learner`, does next. `finished` in the order of completion."""
    return _function(policy)(finished, running, learner=learner, bound=bound, size=size)


@cache
def _function(policy: str) -> PolicyFunction:
    return STALENESS_POLICIES[policy].load()


def pace(
    finished: Sequence[CompleteRollout], running: Sequence[Lease], *, learner: int, bound: int, size: int
) -> Choice:
    """The earliest deadlines, if what remains stays feasible."""
    complete = [rollout.lease for rollout in finished]
    group = choose_group(complete, [*running, *complete], learner, size)
    return Choice(tuple(lease.lease for lease in group or ()))


def soft(
    finished: Sequence[CompleteRollout], running: Sequence[Lease], *, learner: int, bound: int, size: int
) -> Choice:
    """The first to finish."""
    return Choice(_first(finished, size))


def drop(
    finished: Sequence[CompleteRollout], running: Sequence[Lease], *, learner: int, bound: int, size: int
) -> Choice:
    """The rollouts within the bound that finished first. The others expire."""
    fresh = [rollout for rollout in finished if learner - rollout.oldest <= bound]
    expired = tuple(sorted(rollout.lease.lease for rollout in finished if learner - rollout.oldest > bound))
    return Choice(_first(fresh, size), expired)


def _first(finished: Sequence[CompleteRollout], size: int) -> tuple[int, ...]:
    if len(finished) < size:
        return ()
    return tuple(sorted(rollout.lease.lease for rollout in finished[:size]))
