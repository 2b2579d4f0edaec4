"""What an idea's experiments came to, so that one that was tried often is told in a line and not by a list.

Invariant: a summary counts every experiment on an idea, also those that `ideas` no longer keeps one by one. It follows
from the rows alone, by addition: a resumed run has the same. Not the advisor's own words: a rule makes it, so it is
exact and costs no call.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pace_async.search.state import Idea, Tally, Trial
from pace_async.task import better


@dataclass(frozen=True, slots=True)
class Summary:
    """`tried` experiments, of which `failed` have no score; the `best` score, in the task's direction; how often each
    outcome without a score, the commonest first."""

    tried: int
    failed: int
    best: float | None
    failures: tuple[tuple[str, int], ...]


def tallied(tally: Tally, trials: Sequence[Trial]) -> Tally:
    """The tally with more experiments counted, oldest first."""
    if not trials:
        return tally
    lowest, highest, tried, last = tally.lowest, tally.highest, tally.tried, tally.last
    failures = Counter(dict(tally.failures))
    for trial in trials:
        tried, last = tried + 1, trial.candidate
        if trial.score is None:
            failures[trial.outcome] += 1
        else:
            lowest = trial.score if lowest is None else min(lowest, trial.score)
            highest = trial.score if highest is None else max(highest, trial.score)
    return Tally(tried, last, lowest, highest, tuple(sorted(failures.items())))


def summarised(idea: Idea, direction: str) -> Summary:
    """Of all experiments on an idea."""
    whole = tallied(idea.earlier, idea.trials)
    both = [score for score in (whole.lowest, whole.highest) if score is not None]
    best = None if not both else both[0] if better(direction, both[0], both[-1]) else both[-1]
    failures = tuple(sorted(whole.failures, key=lambda failure: (-failure[1], failure[0])))
    return Summary(whole.tried, sum(times for _, times in failures), best, failures)
