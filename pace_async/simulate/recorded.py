"""The stage durations of a recorded run, to simulate it in another shape.

Each evaluation keeps its own time, that of the n-th finished lease. The time includes its tries on fresh instances,
also those on which the task's own program is scored first. Other stages take their mean. A rollout's time in the
advisor is its generation.
"""

from pace_async.errors import UsageError
from pace_async.population.timings import RecordedSeconds
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
