"""Durations of simulated stages in virtual seconds: a pure function of the seed, the stage and its key.

Evaluations are lognormal with the given mean and coefficient of variation, cut off at `evaluation_cap`, or come from a
given list. Every other stage has a constant duration. Invariant: the duration of the n-th lease's evaluation does not
depend on the order of events, so that runs of different shapes do the same work.
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
    """Seconds. `generation` covers all advisor calls of one rollout, `implementing` all of its
    implementer. `pause` is how long a push blocks the engine.
    `evaluations`, if given, are those of leases 1, 2, ... and repeat from the first when they run out. Nothing is drawn
    then."""

    seed: int
    evaluation_mean: float
    evaluation_cv: float
    evaluation_cap: float | None
    generation: float
    learning: float
    pause: float
    evaluations: tuple[float, ...] = ()
    implementing: float = 0.0

    def of(self, stage: str, key: int) -> float:
        """The duration of a stage on `key`."""
        match stage:
            case "evaluate":
                return self.evaluation(key)
            case "advise":
                return self.generation / CALLS
            case "implement":
                return self.implementing
            case "learn":
                return self.learning
            case "publish":
                return self.pause
            case _:
                return 0.0

    def evaluation(self, lease: int) -> float:
        """The evaluation time of a lease's program."""
        if self.evaluations:
            return self.evaluations[(lease - 1) % len(self.evaluations)]
        if self.evaluation_cv <= 0:
            drawn = self.evaluation_mean
        else:
            variance = math.log1p(self.evaluation_cv**2)
            drawn = self.evaluation_mean * math.exp(math.sqrt(variance) * _normal(self.seed, lease) - variance / 2)
        return drawn if self.evaluation_cap is None else min(drawn, self.evaluation_cap)


@lru_cache(maxsize=1 << 14)  # used by the run and by the synchronous loop beside it
def _normal(seed: int, lease: int) -> float:
    return Random(derive(seed, "evaluate", lease)).gauss(0.0, 1.0)
