"""Staleness policies (`--staleness-policy`).

The code of a policy chooses what the learner trains next.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pace_async.registry.base import Entry, Registry, later

if TYPE_CHECKING:
    from pace_async.staleness import policies
    from pace_async.staleness.policies import PolicyFunction
else:
    (policies,) = later("pace_async.staleness", "policies")


@dataclass(frozen=True, slots=True)
class StalenessPolicy(Entry["PolicyFunction"]):
    """`bounds_maximum`: nothing older than `staleness.max_staleness` trains. `counts_running`: leases in flight count
    against the bound on open ones. `discards`: it may close finished rollouts untrained. `waits_for_slowest`: no group
    overtakes a lease whose deadline would be missed. `allows_sync`: it makes sense behind a barrier."""

    bounds_maximum: bool = True
    counts_running: bool = True
    discards: bool = False
    waits_for_slowest: bool = False
    allows_sync: bool = False


STALENESS_POLICIES = Registry(
    "staleness policy",
    StalenessPolicy(
        "pace",
        "hard bound, nothing thrown away",
        lambda: policies.pace,
        waits_for_slowest=True,
        allows_sync=True,
    ),
    StalenessPolicy(
        "soft",
        "trains in order of completion, so bounds the mean only",
        lambda: policies.soft,
        bounds_maximum=False,
    ),
    StalenessPolicy(
        "drop",
        "discards rollouts that are too old, so wastes finished evaluations, the slow ones first",
        lambda: policies.drop,
        counts_running=False,
        discards=True,
    ),
)

_UNKNOWN = StalenessPolicy("", "a policy that is not installed", bounds_maximum=False)


def policy_of(name: str) -> StalenessPolicy:
    """The entry for a recorded name. A policy that is not installed here counts as one without a bound on the maximum,
    so that its run can still be read."""
    return STALENESS_POLICIES.get(name, _UNKNOWN)
