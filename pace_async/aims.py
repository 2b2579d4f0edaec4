"""What a task with several objectives wants of each metric, and the one number that they come to. Pure.

An aim is one objective of a task. (The learner has an objective too, which is another thing.) With cᵢ the distance of
a metric from its better bound as a share of the distance between its bounds, cut off at 0 and 1, and wᵢ the weights,
whose mean is 1, a program that keeps every constraint has the value (augmented Chebyshev, as in ParEGO)

    1 − (max wᵢcᵢ / max wᵢ + ρ · mean wᵢcᵢ) / (1 + ρ)        in [0, 1], ρ = 0.05

Its score is the value with equal weights, so the best program is the one of the front that is nearest the ideal point.
The term with ρ puts every program within its bounds above all that it dominates. A program that breaks constraints
scores less than 0: minus its total violation, in the same shares. So feasible ones come first.

The costs of a program are its total violation and then each distance, not cut off: the lower the better. Dominance and
crowding (`search.front`) look at nothing else.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache

RHO = 0.05
MOST_AIMS = 5
Costs = tuple[float, ...]
"""Total violation, then the distance of each metric from its better bound. Empty where a task has one number."""


@dataclass(frozen=True, slots=True)
class Aim:
    """One objective: the higher the metric the better, or the lower. `at_least` and `at_most` are its constraint."""

    metric: str
    higher: bool
    lower: float
    upper: float
    at_least: float | None = None
    at_most: float | None = None

    def cost(self, value: float) -> float:
        """The distance from the better bound: 0 there and 1 at the worse one."""
        away = self.upper - value if self.higher else value - self.lower
        return away / (self.upper - self.lower)

    def violation(self, value: float) -> float:
        """By how much the value breaks the constraint, 0 if it does not."""
        below = 0.0 if self.at_least is None else self.at_least - value
        above = 0.0 if self.at_most is None else value - self.at_most
        return max(0.0, below, above) / (self.upper - self.lower)

    @property
    def in_words(self) -> str:
        """As models and people are told it."""
        least = "" if self.at_least is None else f", at least {self.at_least:g}"
        most = "" if self.at_most is None else f", at most {self.at_most:g}"
        worse, better = (self.lower, self.upper) if self.higher else (self.upper, self.lower)
        direction = f"{'higher' if self.higher else 'lower'} is better, from {worse:g} to {better:g}"
        return f"{self.metric} ({direction}{least}{most})"


def costs_of(aims: Sequence[Aim], metrics: Mapping[str, float]) -> Costs:
    """The costs of a program with these metrics, empty without aims or where one of their metrics is missing."""
    if not aims or any(aim.metric not in metrics for aim in aims):
        return ()
    violation = sum(aim.violation(metrics[aim.metric]) for aim in aims)
    return (violation, *(aim.cost(metrics[aim.metric]) for aim in aims))


def value_of(costs: Costs, weights: Sequence[float] | None = None) -> float:
    """The value of these costs, by default with equal weights: the score."""
    violation, *distances = costs
    if violation > 0.0:
        return -violation
    weights = weights or (1.0,) * len(distances)
    cut = [weight * min(1.0, max(0.0, cost)) for weight, cost in zip(weights, distances, strict=True)]
    return 1.0 - (max(cut) / max(weights) + RHO * sum(cut) / sum(weights)) / (1.0 + RHO)


@lru_cache(maxsize=256)
def weights_of(lease: int, count: int) -> tuple[float, ...]:
    """The weights with which a lease is rewarded: shares of 1 in hundredths, at least one each. The points of a
    Kronecker sequence (with the generalised golden ratio) are made exponential, so leases in a row cover the simplex
    evenly. It depends on nothing but the lease, so rewards can be computed again."""
    ratio = 2.0
    for _ in range(32):
        ratio = (1.0 + ratio) ** (1.0 / (count + 1))
    drawn = [-math.log(1.0 - (0.5 + lease * ratio**-axis) % 1.0 * (1.0 - 1e-9)) for axis in range(1, count + 1)]
    return tuple(max(0.01, round(draw / sum(drawn), 2)) for draw in drawn)


def text_of(aims: Sequence[Aim]) -> str | None:
    """The aims as JSON, for the row of a run. None without any."""
    return json.dumps([asdict(aim) for aim in aims]) if aims else None


@lru_cache(maxsize=64)
def aims_of(text: str | None) -> tuple[Aim, ...]:
    """The aims from such a row."""
    return tuple(Aim(**fields) for fields in json.loads(text)) if text else ()
