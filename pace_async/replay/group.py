"""A group as values: all that one training step needs, and nothing else.

Invariant: every `Group` can be trained on. Leases ascend, every call has an answer, every number is finite, no token
comes from a version later than the one in training, and no token is staler than the group's bound.
Not the database's record of a rollout, which also contains ideas, programs and scores.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from pace_async.events import AdvisorCall
from pace_async.frozen_values import fast_init

ROUNDING = 1e-5
"""A log-probability computed in float32 may exceed 0 by this much."""


@fast_init
@dataclass(frozen=True, slots=True)
class TrainedCall:
    """One prompt and its sampled answer. `logprobs` (nats) and `versions` (the weight version that sampled the token)
    have one entry for each of `completion_ids`. Raises ValueError if the call cannot be trained on."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    versions: tuple[int, ...]

    def __post_init__(self) -> None:
        length = len(self.completion_ids)
        if not self.prompt_ids or not length:
            raise ValueError("a call needs a prompt and an answer of at least one token each")
        if len(self.logprobs) != length or len(self.versions) != length:
            raise ValueError(
                f"{length} answer tokens with {len(self.logprobs)} logprobs, {len(self.versions)} versions"
            )
        if min(self.prompt_ids) < 0 or min(self.completion_ids) < 0 or min(self.versions) < 0:
            raise ValueError("token ids and versions are not negative")
        if not all(map(math.isfinite, self.logprobs)) or max(self.logprobs) > ROUNDING:
            wrong = next(logprob for logprob in self.logprobs if not math.isfinite(logprob) or logprob > ROUNDING)
            raise ValueError(f"{wrong} is not the logprob of a sampled token")

    @classmethod
    def of(cls, call: AdvisorCall) -> Self:
        """The trainable part of an advisor's call. Raises ValueError if its spans do not cover its tokens."""
        versions: list[int] = []
        for span in sorted(call.spans, key=lambda span: span.start):
            if span.start != len(versions) or span.end < span.start:
                raise ValueError(f"version spans leave a gap or overlap at token {span.start}")
            versions += [span.version] * (span.end - span.start)
        return cls(call.prompt_ids, call.completion_ids, call.logprobs, tuple(versions))


@fast_init
@dataclass(frozen=True, slots=True)
class TrainedRollout:
    """One lease's calls, reward and advantage. Every token of every call gets `advantage`."""

    lease: int
    advantage: float
    reward: float
    calls: tuple[TrainedCall, ...]

    def __post_init__(self) -> None:
        if not math.isfinite(self.advantage) or not math.isfinite(self.reward):
            raise ValueError(f"lease {self.lease}: advantage {self.advantage} and reward {self.reward} must be finite")
        if not self.calls:
            raise ValueError(f"lease {self.lease} has no call")

    @property
    def oldest_version(self) -> int:
        return min(min(call.versions) for call in self.calls)


@dataclass(frozen=True, slots=True)
class Group:
    """B rollouts, in ascending order of leases, that train version `update`. `number` counts groups from 1.
    `max_staleness` is the bound in force when the group was shipped. `rate` multiplies the learning rate. The learner
    keeps weights and optimizer of the versions in `keeps`, also of those not made yet. With `restores` nothing is
    trained: the next version gets the weights and the optimizer of that version."""

    number: int
    update: int
    objective: str
    alpha: float
    max_staleness: int
    rollouts: tuple[TrainedRollout, ...]
    restores: int | None = None
    rate: float = 1.0
    keeps: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        leases = self.leases
        if not leases:
            raise ValueError("a group needs rollouts")
        if any(later <= earlier for earlier, later in pairwise(leases)):
            raise ValueError(f"leases must ascend without repeats: {leases}")
        if not math.isfinite(self.alpha):
            raise ValueError(f"alpha is {self.alpha}")
        if not math.isfinite(self.rate) or self.rate <= 0:
            raise ValueError(f"the learning rate cannot be multiplied by {self.rate}")
        if self.restores is not None and not 0 <= self.restores < self.update:
            raise ValueError(f"version {self.restores} is not earlier than {self.update}, now in training")
        for rollout in self.rollouts:
            newest = max(max(call.versions) for call in rollout.calls)
            if newest > self.update:
                raise ValueError(
                    f"lease {rollout.lease}: version {newest} is later than {self.update}, now in training"
                )
            staleness = self.update - rollout.oldest_version
            if staleness > self.max_staleness:
                raise ValueError(f"lease {rollout.lease} is {staleness} versions stale, bound {self.max_staleness}")

    @property
    def leases(self) -> tuple[int, ...]:
        return tuple(rollout.lease for rollout in self.rollouts)

    @property
    def tokens(self) -> int:
        """Number of valid tokens. The loss is a mean over them."""
        return sum(len(call.completion_ids) for rollout in self.rollouts for call in rollout.calls)
