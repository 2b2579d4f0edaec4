"""The three ways to keep training data fresh, chosen with `--staleness-policy`.

    pace   hard bound, nothing thrown away: see `gate`. The default.
    soft   the same admission, but groups ship in the order of completion. The mean age stays near what the admission
           allows; the maximum does not: a straggler is trained however old it has become.
    drop   what runs does not count for admission, and what has become too old is discarded when the learner looks for
           a group, its lease closed as expired. More raw samples at many threads, but finished evaluations are wasted,
           and the slow ones first: what is trained on is biased towards programs that evaluate fast.

Invariants: a group holds `size` finished rollouts, sorted by lease id; `pace` and `drop` choose none that is older than
the bound; only `drop` expires anything. Pure: values in, values out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pace_async.staleness.gate import Lease, choose_group, may_admit

Policy = Literal["pace", "soft", "drop"]


@dataclass(frozen=True, slots=True)
class Finished:
    """A complete rollout: its lease, and the oldest weight version among its tokens."""

    lease: Lease
    oldest: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Lease ids. `group` trains next, ascending; empty means wait. `expired` are to be closed first, untrained."""

    group: tuple[int, ...] = ()
    expired: tuple[int, ...] = ()


NOTHING = Choice()


def admits(policy: Policy, *, running: int, held: int, learner: int, served: int, bound: int, size: int) -> bool:
    """Whether one more lease may open. `held` counts buffered and in training."""
    counted = held if policy == "drop" else running + held
    return may_admit(counted, learner, served, bound=bound, size=size)


def choose(
    policy: Policy,
    finished: Sequence[Finished],
    running: Sequence[Lease],
    *,
    learner: int,
    bound: int,
    size: int,
) -> Choice:
    """What the learner, idle at version `learner`, does next. `finished` in the order of completion."""
    match policy:
        case "pace":
            complete = [rollout.lease for rollout in finished]
            group = choose_group(complete, [*running, *complete], learner, size)
            return Choice(tuple(lease.lease for lease in group or ()))
        case "soft":
            return Choice(_first(finished, size))
        case "drop":
            fresh = [rollout for rollout in finished if learner - rollout.oldest <= bound]
            expired = tuple(sorted(rollout.lease.lease for rollout in finished if learner - rollout.oldest > bound))
            return Choice(_first(fresh, size), expired)


def _first(finished: Sequence[Finished], size: int) -> tuple[int, ...]:
    if len(finished) < size:
        return ()
    return tuple(sorted(rollout.lease.lease for rollout in finished[:size]))
