"""By how much the scores of one program differ between evaluations, from facts that models may know. Pure.

Pairs are equal programs of different candidates, each evaluated by itself, the repeated evaluations of one candidate on
the hidden instances, and in a command task the two evaluations of one candidate. Not taken are evaluations on fresh
instances, of which nothing is told, and scores from memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from pace_async.search.repeats import NONE, Repeated
from pace_async.search.results import ExperimentResult, Results
from pace_async.task import TaskSpec

FEWEST = 3
"""Pairs from which on the noise has a size."""
CONFIRMED = 40
"""The best results, among which those are that were evaluated again."""
REPEATED = 100
"""Programs of several candidates that are looked at."""


@dataclass(frozen=True, slots=True)
class Noise:
    """`size` is the median distance of the two scores of a pair, in units of the score."""

    size: float
    pairs: int


def noise_of(view: Results, spec: TaskSpec, first: ExperimentResult | None, repeated: Repeated = NONE) -> Noise | None:
    """The noise of a task that is not deterministic, None with fewer than FEWEST pairs. `first` is the result of the
    task's own program."""
    if spec.deterministic:
        return None
    apart = [*_of_equal_programs(view, first), *(_of_second_evaluations(view) if not spec.of_kind.hides_scorer else ())]
    known = (scores for candidate, scores in repeated.items() if candidate in view.tested)
    apart += [abs(score - scores[0]) for scores in known for score in scores[1:]]
    return Noise(median(apart), len(apart)) if len(apart) >= FEWEST else None


def _of_equal_programs(view: Results, first: ExperimentResult | None) -> Iterator[float]:
    own = first.program if first is not None else ""
    for program in dict.fromkeys([*([own] if own in view.by_program else ()), *view.repeated[:REPEATED]]):
        tested = [view.tested[candidate] for candidate in view.by_program[program]]
        if program == own and first is not None:
            tested.insert(0, first)
        scores = [result.score for result in tested if result.score is not None and result.seconds]
        yield from (abs(score - scores[0]) for score in scores[1:])


def _of_second_evaluations(view: Results) -> Iterator[float]:
    for result in view.best(CONFIRMED):
        if result.score is not None and result.again is not None:
            yield abs(result.score - result.again)


def noise_text(spec: TaskSpec, noise: Noise | None) -> str:
    """One sentence."""
    if spec.deterministic:
        return "Equal programs always have equal scores."
    if noise is None:
        return "Scores are noisy: a small gain may be chance."
    if not noise.size:
        return f"Two evaluations of one program hardly differ ({noise.pairs} pairs)."
    apart = f"about {noise.size:.2g} (the median of {noise.pairs} pairs)"
    return f"Two evaluations of one program differ by {apart}: a gain below that may be chance."
