"""Facts of learning: groups are shipped, leases close, versions are published."""

from collections.abc import Mapping
from dataclasses import dataclass

from pace_async.events.literals import Closing


@dataclass(frozen=True, slots=True)
class GroupShipped:
    """B complete leases leave the buffer to train the learner's version `update` (ids sorted). `number` counts groups
    from 1, skipped ones too. `staleness`, `rewards`, `advantages` match `leases`. Advantages are None if a branch
    collapsed. The group is then skipped before the learner gets it. `restores`: the earlier version from which the next
    is made after the advisor collapsed. Advantages are then None too. `rate` multiplies the learning rate."""

    number: int
    update: int
    leases: tuple[int, ...]
    staleness: tuple[int, ...]
    rewards: tuple[float, ...]
    advantages: tuple[float, ...] | None
    alpha: float
    digest: str
    at: float
    restores: int | None = None
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class GroupEnded:
    """The end of a group. trained: version becomes update + 1. skipped (collapsed or discarded): version stays, unless
    the advisor went back to version `restored`: then it becomes update + 1 too. The group's leases close with it.
    `version` is the learner's version afterwards, `weights` its directory."""

    number: int
    update: int
    leases: tuple[int, ...]
    closing: Closing
    reason: str
    version: int
    weights: str | None
    metrics: Mapping[str, float]
    seconds: float
    at: float
    restored: int | None = None


@dataclass(frozen=True, slots=True)
class LeaseAborted:
    """A lease closed without training, because an infrastructure fault ended its rollout."""

    lease: int
    island: int
    kind: str
    detail: str
    at: float


@dataclass(frozen=True, slots=True)
class LeaseReleased:
    """A complete lease closed without training (`--objective none`, or expired under `drop`)."""

    lease: int
    closing: Closing
    at: float


@dataclass(frozen=True, slots=True)
class VersionPublished:
    """Every replica that may receive a request serves `version`. `receipt` maps tensor name to digest. `k3` is the
    logprob probe's divergence from the learner's own weights, None without a probe."""

    version: int
    seconds: float
    paused_seconds: float
    receipt: Mapping[str, str]
    at: float
    k3: float | None = None
