"""How long simulated stages take, in virtual seconds: a pure function of the seed, the stage and what is worked on.

Evaluations are lognormal with the given mean and coefficient of variation, cut off at `evaluation_cap`, or a given
list; the others take the same time each. Invariant: the n-th lease's evaluation takes the same time whatever the order
and whatever else happens, so that runs of different shape can be compared on the same work.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from pace_async.search.draws import derive

CALLS = 3
"""Advisor calls of one rollout."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Seconds. `generation` is a whole rollout's, all its calls; `pause` is how long a push holds the engine.
    `evaluations`, where given, are those of leases 1, 2, ... (and again from the first when they run out) and are drawn
    from nothing."""

    seed: int
    evaluation_mean: float
    evaluation_cv: float
    evaluation_cap: float | None
    generation: float
    learning: float
    pause: float
    evaluations: tuple[float, ...] = ()

    def of(self, stage: str, key: int) -> float:
        """How long a stage takes on `key`."""
        match stage:
            case "evaluate":
                return self.evaluation(key)
            case "advise":
                return self.generation / CALLS
            case "learn":
                return self.learning
            case "publish":
                return self.pause
            case _:
                return 0.0

    def evaluation(self, lease: int) -> float:
        """How long the program of a lease takes to evaluate."""
        if self.evaluations:
            return self.evaluations[(lease - 1) % len(self.evaluations)]
        if self.evaluation_cv <= 0:
            drawn = self.evaluation_mean
        else:
            variance = math.log1p(self.evaluation_cv**2)
            drawn = self.evaluation_mean * math.exp(math.sqrt(variance) * _normal(self.seed, lease) - variance / 2)
        return drawn if self.evaluation_cap is None else min(drawn, self.evaluation_cap)


@lru_cache(maxsize=1 << 14)  # asked for by the run, and by the loop with a barrier that it is compared with
def _normal(seed: int, lease: int) -> float:
    return Random(derive(seed, "evaluate", lease)).gauss(0.0, 1.0)
