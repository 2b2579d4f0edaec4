"""The stage durations of a recorded run, to simulate it in another shape.

Each evaluation keeps its own time, that of the n-th finished lease. The time includes its tries on fresh instances,
also those on which the task's own program is scored first. Other stages take their mean. A rollout's time in the
advisor is its generation.
"""

from collections.abc import Mapping
from dataclasses import replace

from pace_async.errors import UsageError
from pace_async.events import Curve
from pace_async.fitness import Fitness
from pace_async.population.timings import RecordedSeconds
from pace_async.simulate.curves import Curves, whole_curves
from pace_async.simulate.durations import Durations


def recorded_durations(recorded: RecordedSeconds, seed: int) -> Durations:
    """The durations of a recorded run. Raises UsageError if it has no evaluation."""
    fresh = _fresh_seconds(recorded)
    evaluations = tuple(seconds + fresh.get(candidate, 0.0) for candidate, seconds in recorded.evaluations)
    if not any(evaluations):
        raise UsageError("Nothing was evaluated in that run yet: give --eval-mean instead.")
    return Durations(
        seed=seed,
        evaluation_mean=sum(evaluations) / len(evaluations),
        evaluation_cv=0.0,
        evaluation_cap=None,
        generation=recorded.advising,
        learning=recorded.learning,
        pause=recorded.pushing,
        evaluations=evaluations,
        implementing=recorded.implementing,
    )


def with_whole_curves(
    recorded: RecordedSeconds, curves: Mapping[int, tuple[Curve, bool]], fitness: Fitness, seed: int
) -> tuple[Durations, Curves]:
    """The durations of a recorded run, as if none of its evaluations had been stopped, and what they would have
    reported. `curves` are its curves by candidate, and whether the evaluation ran to a score. Raises UsageError without
    one."""
    durations, numbers = recorded_durations(recorded, seed), (0, *(candidate for candidate, _ in recorded.evaluations))
    whole = whole_curves([curves.get(number, ((), True)) for number in numbers], fitness)
    if not whole:
        raise UsageError(
            "No evaluation of that run reported values to its end: with `evaluation.prune` and a "
            "`evaluation.prune_warmup` beyond the last step a run keeps whole curves and stops none."
        )
    seconds = tuple(took / share for took, (_, share) in zip(durations.evaluations, whole[1:], strict=True))
    mean = sum(seconds) / len(seconds)
    changed = replace(durations, evaluations=seconds, evaluation_mean=mean)
    return changed, Curves(recorded=tuple(curve for curve, _ in whole))


def _fresh_seconds(recorded: RecordedSeconds) -> dict[int, float]:
    """The confirmation seconds of each candidate. The time of the task's own program on a fresh seed is not recorded,
    so its time on the hidden instances is taken."""
    seconds: dict[int, float] = {}
    scored: set[int] = set()
    for candidate, seed, took in recorded.fresh:
        first = seed not in scored
        scored.add(seed)
        seconds[candidate] = seconds.get(candidate, 0.0) + took + recorded.own * first
    return seconds
