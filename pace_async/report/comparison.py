"""Compares runs of one task: which share their settings, how good each arm is, and how far two arms differ.

Pure. An arm is a set of runs whose settings differ only in the seed, and in when they end where nothing depends on it.
A run with the seed and the scores of another one of its arm is that run once more, and counts for no mean, nor does a
run without a complete candidate, such as a seed of a series that failed at its start. All other runs are
compared at one place: after as many candidates, hours of search or USD as the shortest one has. The intervals are
Student's, with Welch's degrees of freedom for a difference: so they need two seeds in each arm, assume nothing about
equal spread, and are wide where seeds are few. Runs of two arms are not paired, also where they have equal seeds.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from pace_async.fitness import Fitness
from pace_async.registry.objectives import trains
from pace_async.report.diagnostics import NO_DIAGNOSTICS, Diagnostics, place_reaching

LEVEL = 0.95
_NOT_OF_THE_ARM = ("seed", "population.url")
_SLICES = 20_000

SURELY = 3
"""So many equal improvements in a row, the seed program's score included, are no coincidence."""


By = Literal["candidates", "hours", "usd"]
CHOICES: tuple[By, ...] = get_args(By)
_NAMED: dict[str, By] = {choice: choice for choice in CHOICES}


def by_of(name: str | None) -> By:
    """The axis of that name, else the first one."""
    return _NAMED.get(name or "", CHOICES[0])


@dataclass(frozen=True, slots=True, repr=False)
class ComparedRun:
    """One run. `settings` are flat, by dotted key. `curve` has (place, best score) at each improvement, oldest first,
    and `fresh` (place, score of the best program at fresh seeds), None where it was tried at none. `fronts` has (place,
    hypervolume of the front) where that grows, empty without objectives. A place counts candidates complete, hours of
    search or USD, and `length` is that of the run's end. `spend_usd` is None if the price of some calls is not known,
    and `spend_known_usd` is the cost of the others."""

    run: str
    task: str
    task_digest: str
    fitness: Fitness
    seed: int
    state: str
    candidates: int
    spend_usd: float | None
    settings: Mapping[str, object]
    curve: tuple[tuple[float, float], ...]
    length: float
    fresh: tuple[tuple[float, float | None], ...] = ()
    diagnostics: Diagnostics = NO_DIAGNOSTICS
    spend_known_usd: float = 0.0
    fronts: tuple[tuple[float, float], ...] = ()

    def __repr__(self) -> str:
        return f"ComparedRun({self.run!r}, {self.candidates} candidates, best {_short(self.best_after(self.length))})"

    def best_after(self, place: float) -> float | None:
        """The best score at a place, None before the first score."""
        return _at(self.curve, place)

    def fresh_after(self, place: float) -> float | None:
        """The score at fresh seeds of the program that was the best at a place, None if it has none."""
        return _at(self.fresh, place)

    def front_after(self, place: float) -> float | None:
        """The hypervolume of the front at a place, None before its first program."""
        return _at(self.fronts, place)

    def repeats(self, other: "ComparedRun") -> bool:
        """Whether this is the other run once more, perhaps longer or shorter."""
        shared = min(len(self.curve), len(other.curve))
        ours, theirs = ([score for _, score in run.curve[:shared]] for run in (self, other))
        return self.seed == other.seed and shared >= SURELY and ours == theirs


def _short(score: float | None) -> str:
    return "none" if score is None else f"{score:.6g}"


def _at(curve: Sequence[tuple[float, float | None]], place: float) -> float | None:
    return next((score for at, score in reversed(curve) if at <= place), None)


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


@dataclass(frozen=True, slots=True, repr=False)
class Arm:
    """Runs that differ only in their seeds. `settings` are those in which the arms differ."""

    name: str
    settings: Mapping[str, object]
    runs: tuple[ComparedRun, ...]

    def __repr__(self) -> str:
        scores = [score for run in self.runs if (score := run.best_after(run.length)) is not None]
        best = self.runs[0].fitness.best(scores) if scores else None
        return f"Arm({self.name!r}, {len(self.runs)} run{'' if len(self.runs) == 1 else 's'}, best {_short(best)})"

    @property
    def repeats(self) -> tuple[ComparedRun, ...]:
        """The runs that repeat an earlier one: they have its seed, and its scores as far as the shorter one goes."""
        firsts, again = list[ComparedRun](), list[ComparedRun]()
        for run in self.runs:
            (again if any(run.repeats(other) for other in firsts) else firsts).append(run)
        return tuple(again)

    @property
    def apart(self) -> tuple[ComparedRun, ...]:
        """The runs that count: those with a complete candidate that repeat no other one."""
        again = self.repeats
        return tuple(run for run in self.runs if run.candidates and all(run is not other for other in again))

    def scores(self, place: float, *, fresh: bool = False) -> list[float]:
        """The best scores at a place, or those of the best programs at fresh seeds, of the runs that have one and
        repeat no other one."""
        scores = (run.fresh_after(place) if fresh else run.best_after(place) for run in self.apart)
        return [score for score in scores if score is not None]

    def mean(self, place: float, *, fresh: bool = False) -> Estimate | None:
        """Their mean, None without a score."""
        scores = self.scores(place, fresh=fresh)
        return _estimate(scores) if scores else None


def arms_of(runs: Sequence[ComparedRun]) -> tuple[Arm, ...]:
    """The arms, in the order of their first runs, named A, B, …"""
    groups: dict[tuple[tuple[str, str], ...], list[ComparedRun]] = {}
    for run in runs:
        of_arm = {key: value for key, value in run.settings.items() if _is_of_arm(key, run.settings)}
        key = (("task_digest", run.task_digest), *sorted((name, repr(value)) for name, value in of_arm.items()))
        groups.setdefault(key, []).append(run)
    first = [group[0].settings for group in groups.values()]
    names = sorted({name for settings in first for name in settings if _is_of_arm(name, settings)})
    differing = [name for name in names if len({repr(settings.get(name)) for settings in first}) > 1]
    return tuple(
        Arm(_letters(number), {name: group[0].settings.get(name) for name in differing}, tuple(group))
        for number, group in enumerate(groups.values())
    )


def _is_of_arm(key: str, settings: Mapping[str, object]) -> bool:
    """Whether a setting tells arms apart. When a run ends does not, unless its schedule of learning is that long."""
    if key in _NOT_OF_THE_ARM:
        return False
    if not key.startswith("stop."):
        return True
    return trains(str(settings.get("learner.objective", ""))) and settings.get("learner.horizon") is None


def _letters(number: int) -> str:
    """A … Z, then A1, B1, …"""
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")


def difference(arm: Arm, against: Arm, place: float, *, fresh: bool = False) -> Estimate | None:
    """How much the arm's mean is above the other's, None where one has no score."""
    ours, theirs = arm.scores(place, fresh=fresh), against.scores(place, fresh=fresh)
    if not ours or not theirs:
        return None
    value = statistics.fmean(ours) - statistics.fmean(theirs)
    if len(ours) < 2 or len(theirs) < 2:
        return Estimate(value, None, None)
    own, other = (statistics.variance(scores) / len(scores) for scores in (ours, theirs))
    if own + other == 0:
        return Estimate(value, value, value)
    freedom = (own + other) ** 2 / (own**2 / (len(ours) - 1) + other**2 / (len(theirs) - 1))
    half = t_quantile(freedom) * math.sqrt(own + other)
    return Estimate(value, value - half, value + half)


def verdict(arm: Arm, against: Arm, estimate: Estimate | None, fitness: Fitness) -> str:
    """What the difference of two arms shows, in a sentence."""
    if estimate is None or estimate.told_apart is None:
        return f"Whether {arm.name} and {against.name} differ cannot be said: it takes two seeds with a score in each."
    if not estimate.told_apart:
        return f"{arm.name} and {against.name} are not told apart: the interval of their difference holds 0."
    return f"{arm.name} is {'better' if fitness.better(estimate.value, 0.0) else 'worse'} than {against.name}."


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
    target = level * math.fsum(weights)
    reached = 0.0
    for index, weight in enumerate(weights):
        if reached + weight >= target:
            angle = (index + (target - reached) / weight) * width
            return math.sqrt(freedom) * math.tan(angle)
        reached += weight
    return math.inf


def common(runs: Sequence[ComparedRun]) -> float:
    """The place at which all runs are compared: the end of the shortest that has a complete candidate."""
    return min((run.length for run in runs if run.candidates), default=0.0)


def band(arm: Arm, end: float) -> list[tuple[float, Estimate]]:
    """The arm's mean curve: (place, mean with interval) wherever a run improves, and at the end. Begins where every run
    has a score."""
    begun = [run.curve[0][0] for run in arm.apart if run.curve]
    if not begun or len(begun) < len(arm.apart):
        return []
    places = {place for run in arm.apart for place, _ in run.curve if max(begun) <= place <= end}
    curve = [(place, arm.mean(place)) for place in sorted({max(begun), *places, end})]
    return [(place, mean) for place, mean in curve if mean is not None]


def reaches(arm: Arm, other: Arm, end: float, fitness: Fitness) -> float | None:
    """The place at which the arm's mean curve is first as good as the other's mean at the end, None if it never is."""
    final = other.mean(end)
    return (
        None
        if final is None
        else place_reaching([(at, mean.value) for at, mean in band(arm, end)], final.value, fitness)
    )


def sampled(curve: Sequence[tuple[float, Estimate]], points: int, end: float) -> list[float | None]:
    """The mean at `points` even places from 0 to `end`, None before the curve begins."""
    ahead = [*curve, (math.inf, Estimate(0.0, None, None))]
    means: list[float | None] = []
    for index in range(points):
        place = end * index / max(1, points - 1)
        means.append(next((now.value for (at, now), (after, _) in pairwise(ahead) if at <= place < after), None))
    return means
