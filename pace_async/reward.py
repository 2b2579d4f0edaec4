"""The reward of a score.

The reward is progress between the task's bounds, clamped, scaled, and -1 for a candidate's failure.

In a cascade, a candidate stopped by a cheap stage has reward 0, that of no progress. It did not fail, and no full score
has a lower reward. The score of the cheap stage earns nothing because it is another measure: otherwise a stop just
below the threshold could be worth more than passing it.

A candidate whose evaluation was stopped early has the reward of the last value that it reported, as if that were its
score. It did not fail either. The value is of the score's own measure, and lies below the bar at which it was stopped:
what earlier programs had at that step. So a stop is never worth more than the earlier program that it is measured by.

The paper's reward measures progress from the task's bounds. A `RewardRule` may measure it from another score, which is
credit to what the experiment changed rather than to the parent that it was given:

    bounds   scale * u(y) ** exponent, in [0, scale]: the paper's
    seed     the same, with u measured from the seed program's score: (u(y) - u(seed)) / (1 - u(seed)), and 0 below it
    parent   scale * max(-floor, u(y) ** exponent - u(parent) ** exponent), in [-scale * floor, scale]: the gain over
             the parent. The floor cuts what a bad program loses, so that one of them does not set the scale of a group

With several objectives the score that is rewarded is that with the weights of the lease (`aims.weights_of`), not with
equal ones, and so are those of the parent and the seed program. So every part of a front is rewarded by some leases.
Models are told the weights.

Under every rule a candidate's failure earns less than any score, and a stop by a cheap stage as little as the lowest.

Paper, "Progress-normalized reward shaping". A failure of the infrastructure never reaches this function, because it is
no reward at all.
"""

import math
from dataclasses import dataclass
from typing import Self

from pace_async.aims import Costs, weights_of
from pace_async.config import RewardConfig
from pace_async.fitness import Fitness
from pace_async.task import TaskSpec

FAILURE = -1.0
STOPPED = 0.0


@dataclass(frozen=True, slots=True)
class RewardRule:
    """How a run turns scores into rewards. `floor` is a share of full progress, with `scale * floor` below 1. Only the
    rules `parent` and `seed` use the other scores that are given."""

    fitness: Fitness
    scale: float = 5.0
    exponent: float = 1.0
    relative_to: str = "bounds"
    floor: float = 0.02

    @classmethod
    def of(cls, config: RewardConfig, spec: TaskSpec) -> Self:
        """The rule of a run, from its settings and its task's fitness."""
        return cls(spec.fitness, config.scale, config.exponent, config.relative_to, config.floor)

    def of_score(self, score: float | None, *, parent: float, seed: float) -> float:
        """The reward of a score, with those of the parent and of the seed program. FAILURE without a finite score."""
        if score is None or not math.isfinite(score):
            return FAILURE
        if self.relative_to == "parent":
            return self.scale * max(-self.floor, self._shaped(score) - self._shaped(parent))
        if self.relative_to == "seed":
            start = self.fitness.progress(seed)
            left = max(0.0, self.fitness.progress(score) - start)
            return self.scale * (left / (1.0 - start)) ** self.exponent if left else 0.0
        return self.scale * self._shaped(score)

    def of_costs(self, costs: Costs, *, parent: Costs, seed: Costs, lease: int) -> float:
        """The reward of a program with these costs, in a task with several objectives. FAILURE without costs."""
        weights = weights_of(lease, len(self.fitness.aims))
        score, over, start = (
            self.fitness.score_of(program_costs, weights) if program_costs else None
            for program_costs in (costs, parent, seed)
        )
        return self.of_score(score, parent=over or 0.0, seed=start or 0.0)

    @property
    def stopped(self) -> float:
        """The reward of a candidate that a cheap stage stopped: the lowest that a score can earn."""
        return -self.scale * self.floor if self.relative_to == "parent" else STOPPED

    def _shaped(self, score: float) -> float:
        return self.fitness.progress(score) ** self.exponent
