"""Compares runs of one task: which share their settings, how good each arm is, and how far two arms differ.

Pure. An arm is a set of runs whose settings differ only in the seed. All runs are compared after the same number of
candidates, that of the shortest one. The intervals are Student's, with Welch's degrees of freedom for a difference: so
they need two seeds in each arm, assume nothing about equal spread, and are wide where seeds are few. Runs of two arms
are not paired, also where they have equal seeds.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pace_async.reward import better

LEVEL = 0.95
_NOT_OF_THE_ARM = ("seed", "population.url")
_SLICES = 20_000


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run. `settings` are flat, by dotted key. `curve` has (candidates complete, best score) at each improvement,
    oldest first."""

    run: str
    task: str
    task_digest: str
    direction: str
    seed: int
    state: str
    candidates: int
    spend_usd: float
    settings: Mapping[str, object]
    curve: tuple[tuple[int, float], ...]

    def best_after(self, candidates: int) -> float | None:
        """The best score when so many candidates were complete, None before the first score."""
        best = None
        for place, score in self.curve:
            if place > candidates:
                break
            best = score
        return best


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean or a difference with its interval. The interval is None with fewer than two seeds in an arm."""

    value: float
    low: float | None
    high: float | None

    @property
    def told_apart(self) -> bool | None:
        """Of a difference: whether its interval leaves out 0. None without an interval."""
        return None if self.low is None or self.high is None else not self.low <= 0 <= self.high


@dataclass(frozen=True, slots=True)
class Arm:
    """Runs that differ only in their seeds. `settings` are those in which the arms differ."""

    name: str
    settings: Mapping[str, object]
    runs: tuple[ComparedRun, ...]

    def scores(self, candidates: int) -> list[float]:
        """The best scores after so many candidates, of the runs that have one."""
        found = (run.best_after(candidates) for run in self.runs)
        return [score for score in found if score is not None]

    def mean(self, candidates: int) -> Estimate | None:
        """Their mean, None without a score."""
        scores = self.scores(candidates)
        return _estimate(scores) if scores else None


def arms_of(runs: Sequence[ComparedRun]) -> tuple[Arm, ...]:
    """The arms, in the order of their first runs, named A, B, …"""
    groups: dict[tuple[tuple[str, str], ...], list[ComparedRun]] = {}
    for run in runs:
        of_arm = {key: value for key, value in run.settings.items() if key not in _NOT_OF_THE_ARM}
        key = (("task_digest", run.task_digest), *sorted((name, repr(value)) for name, value in of_arm.items()))
        groups.setdefault(key, []).append(run)
    first = [group[0].settings for group in groups.values()]
    names = sorted({name for settings in first for name in settings} - set(_NOT_OF_THE_ARM))
    differing = [name for name in names if len({repr(settings.get(name)) for settings in first}) > 1]
    return tuple(
        Arm(_letters(number), {name: group[0].settings.get(name) for name in differing}, tuple(group))
        for number, group in enumerate(groups.values())
    )


def _letters(number: int) -> str:
    """A … Z, then A1, B1, …"""
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")


def difference(arm: Arm, against: Arm, candidates: int) -> Estimate | None:
    """How much the arm's mean is above the other's, None where one has no score."""
    ours, theirs = arm.scores(candidates), against.scores(candidates)
    if not ours or not theirs:
        return None
    value = statistics.fmean(ours) - statistics.fmean(theirs)
    if len(ours) < 2 or len(theirs) < 2:
        return Estimate(value, None, None)
    one, other = (statistics.variance(scores) / len(scores) for scores in (ours, theirs))
    if one + other == 0:
        return Estimate(value, value, value)
    freedom = (one + other) ** 2 / (one**2 / (len(ours) - 1) + other**2 / (len(theirs) - 1))
    half = t_quantile(freedom) * math.sqrt(one + other)
    return Estimate(value, value - half, value + half)


def verdict(arm: Arm, against: Arm, found: Estimate | None, direction: str) -> str:
    """What the difference of two arms shows, in a sentence."""
    if found is None or found.told_apart is None:
        return f"Whether {arm.name} and {against.name} differ cannot be said: it takes two seeds with a score in each."
    if not found.told_apart:
        return f"{arm.name} and {against.name} are not told apart: the interval of their difference holds 0."
    return f"{arm.name} is {'better' if better(direction, found.value, 0.0) else 'worse'} than {against.name}."


def _estimate(scores: Sequence[float]) -> Estimate:
    mean = statistics.fmean(scores)
    if len(scores) < 2:
        return Estimate(mean, None, None)
    half = t_quantile(len(scores) - 1) * statistics.stdev(scores) / math.sqrt(len(scores))
    return Estimate(mean, mean - half, mean + half)


def t_quantile(freedom: float, level: float = LEVEL) -> float:
    """Half the width of Student's interval of this level, in standard errors: P(|t| < x) = `level`. With
    t = √freedom · tan θ the density is proportional to cos θ to the power `freedom` − 1, so the probability is a smooth
    integral over a finite range. Good to five digits."""
    width = math.pi / 2 / _SLICES
    weights = [math.cos((index + 0.5) * width) ** (freedom - 1) for index in range(_SLICES)]
    wanted = level * math.fsum(weights)
    reached = 0.0
    for index, weight in enumerate(weights):
        if reached + weight >= wanted:
            angle = (index + (wanted - reached) / weight) * width
            return math.sqrt(freedom) * math.tan(angle)
        reached += weight
    return math.inf


def common(runs: Sequence[ComparedRun]) -> int:
    """The number of candidates after which all runs are compared."""
    return min(run.candidates for run in runs)


def band(arm: Arm, candidates: int) -> list[tuple[int, Estimate]]:
    """The arm's mean curve: (candidates complete, mean with interval) wherever a run improves, and at the end. Begins
    where every run has a score."""
    begun = [run.curve[0][0] for run in arm.runs if run.curve]
    if len(begun) < len(arm.runs):
        return []
    places = {place for run in arm.runs for place, _ in run.curve if max(begun) <= place <= candidates}
    curve = [(place, arm.mean(place)) for place in sorted({max(begun), *places, candidates})]
    return [(place, mean) for place, mean in curve if mean is not None]


def sampled(curve: Sequence[tuple[int, Estimate]], points: int, candidates: int) -> list[float | None]:
    """The mean at `points` even places from 0 to `candidates`, None before the curve begins."""
    ahead = [*curve, (candidates + 1, Estimate(0.0, None, None))]
    found: list[float | None] = []
    for index in range(points):
        place = candidates * index / max(1, points - 1)
        found.append(next((now.value for (at, now), (after, _) in pairwise(ahead) if at <= place < after), None))
    return found
