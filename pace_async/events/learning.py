"""Finished rollouts leave as a group, leases close, versions are served."""

from collections.abc import Mapping
from dataclasses import dataclass

from pace_async.events.words import Closing


@dataclass(frozen=True, slots=True)
class GroupShipped:
    """B complete leases leave the buffer to train the learner's version `update` (ids sorted). `number` counts
    groups from 1, skipped ones too. `staleness`, `rewards`, `advantages` match `leases`; advantages are None where a
    branch collapsed, and the group is then skipped before the learner sees it. `restores`: where the advisor has
    collapsed, the version that the next one is made of instead, and advantages are None; `rate` multiplies the learning
    rate."""

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
    """The group's fate. trained: version becomes update + 1. skipped (collapsed or discarded): version stays, or where
    the advisor went back to version `restored`, becomes update + 1 too. The group's leases close with it. `version` is
    the learner's after it; `weights` the directory that holds it."""

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
    """A lease whose rollout died of the infrastructure: closed, not trained."""

    lease: int
    island: int
    kind: str
    detail: str
    at: float


@dataclass(frozen=True, slots=True)
class LeaseReleased:
    """A complete lease that no learner will train (`--objective none`, or expired under `drop`)."""

    lease: int
    closing: Closing
    at: float


@dataclass(frozen=True, slots=True)
class VersionPublished:
    """Every replica that may receive a request serves `version`. `receipt` maps tensor name to digest; `k3` is the
    logprob probe's, against the learner's own weights, None where none was made."""

    version: int
    seconds: float
    paused_seconds: float
    receipt: Mapping[str, str]
    at: float
    k3: float | None = None
