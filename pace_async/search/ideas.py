"""The idea pool of an island: capped, merged, the stalest dropped first, and the summary of an idea.

The pool is ordered by use: an idea that is proposed, proposed again or tried moves to the end, and what falls out at
the cap is at the front. An idea that has just been admitted is never dropped in the same step.

A summary describes an idea with many experiments in one line. Invariant: it counts every experiment on an idea, also
those that the pool no longer keeps. It is a sum over the rows, so a resumed run has the same. A rule makes it and not
the advisor, so it is exact and costs no call.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest
from typing import TypeVar

from pace_async.events import IdeaNote
from pace_async.fitness import Fitness
from pace_async.search.state import Idea, Tally, Trial

Pool = tuple[Idea, ...]
T = TypeVar("T")

QUOTES = "\"'`()[]"
TRIALS_KEPT = 50
"""As many as a prompt may show (`search.trials_shown`)."""


def admit(
    pool: Pool, proposals: Sequence[str], verdicts: Sequence[int | None], next_number: int, cap: int
) -> tuple[Pool, tuple[IdeaNote, ...], int]:
    """Take proposals into the pool. `verdicts[i]` is None for a new idea, or the number of the idea of the pool that
    proposal i repeats. Returns (pool, notes, next number). Raises ValueError for an unknown number."""
    ideas = list(pool)
    notes: list[IdeaNote] = []
    for description, known in zip(proposals, verdicts, strict=True):
        if known is None:
            ideas.append(Idea(number=next_number, description=description))
            notes.append(IdeaNote(number=next_number, description=description, known=False))
            next_number += 1
        else:
            try:
                place = [idea.number for idea in ideas].index(known)
            except ValueError as error:
                raise ValueError(f"there is no idea {known} in the pool") from error
            ideas.append(ideas.pop(place))
            notes.append(IdeaNote(number=known, description=ideas[-1].description, known=True))
    return tuple(ideas[-max(cap, len(proposals)) :]), tuple(notes), next_number


def recognised(
    pool: Pool, proposals: Sequence[str], verdicts: Sequence[int | None], next_number: int
) -> tuple[int | None, ...]:
    """The verdicts for `admit`. A proposal with the same words as an idea of the pool, or as an earlier proposal,
    repeats that idea whatever the advisor's verdict. If there are several such ideas, it repeats the one used last.
    Only equal words count, because ideas that differ in one value are similar texts and different ideas. This is not in
    `admit`, which also folds rows that were written before this rule existed."""
    by_words = {words(idea.description): idea.number for idea in pool}
    numbers: list[int | None] = []
    for proposal, verdict in zip(proposals, verdicts, strict=True):
        key = words(proposal)
        known = by_words.get(key, verdict)
        numbers.append(known)
        if known is None:
            known, next_number = next_number, next_number + 1
        by_words.setdefault(key, known)
    return tuple(numbers)


@lru_cache(maxsize=4096)  # each idea of a pool is looked at with each proposal
def words(text: str) -> tuple[str, ...]:
    """The key by which two ideas are the same text: the words without case and without the punctuation around them. A
    sign or a decimal point stays."""
    bare = (word.strip(QUOTES).rstrip(".,;:!?").strip(QUOTES) for word in text.casefold().split())
    return tuple(word for word in bare if word)


def record_trial(pool: Pool, number: int, trial: Trial) -> Pool:
    """The pool with one more experiment under idea `number`, which moves to the end. It is unchanged if the idea was
    dropped. The last TRIALS_KEPT experiments of the idea are kept, and the others are counted."""
    numbers = [idea.number for idea in pool]
    if number not in numbers:
        return pool
    place = numbers.index(number)
    updated_idea = _with_trials(pool[place], (*pool[place].trials, trial))
    return (*pool[:place], *pool[place + 1 :], updated_idea)


def merge_pools(older: Pool, newer: Pool, cap: int) -> Pool:
    """Both pools of one island as one, with the ideas used last. An idea of both has its place in `newer` and the
    experiments of both."""
    before = {idea.number: idea for idea in older}
    again = {idea.number for idea in newer}
    joined = [_joined(before[idea.number], idea) if idea.number in before else idea for idea in newer]
    return tuple(interleaved([idea for idea in older if idea.number not in again], joined)[-cap:])


def interleaved(older: Sequence[T], newer: Sequence[T]) -> list[T]:
    """Both sequences as one, by place from the end. At equal place the item of `newer` comes later."""
    from_the_end = zip_longest(reversed(newer), reversed(older), fillvalue=None)
    return [item for pair in from_the_end for item in pair if item is not None][::-1]


def _joined(idea: Idea, other: Idea) -> Idea:
    """Two versions of an idea with the same beginning, as one. Experiments that one version only counts are in its
    tally and are not counted again."""
    earlier = max(idea.earlier, other.earlier, key=lambda tally: tally.last)
    trials = {trial.candidate: trial for trial in (*idea.trials, *other.trials) if trial.candidate > earlier.last}
    return _with_trials(replace(other, earlier=earlier), tuple(trials[candidate] for candidate in sorted(trials)))


def _with_trials(idea: Idea, trials: tuple[Trial, ...]) -> Idea:
    earlier = tallied(idea.earlier, trials[:-TRIALS_KEPT])
    return Idea(idea.number, idea.description, trials[-TRIALS_KEPT:], earlier)  # `replace` takes three times as long


@dataclass(frozen=True, slots=True)
class Summary:
    """`tried` experiments, `failed` of them without a score. The `best` score, in the task's direction. The count of
    each outcome without a score, the most frequent first."""

    tried: int
    failed: int
    best: float | None
    failures: tuple[tuple[str, int], ...]


def tallied(tally: Tally, trials: Sequence[Trial]) -> Tally:
    """The tally with more experiments counted, oldest first."""
    if not trials:
        return tally
    lowest, highest, count, last = tally.lowest, tally.highest, tally.tried, tally.last
    failures = Counter(dict(tally.failures))
    for trial in trials:
        count, last = count + 1, trial.candidate
        if trial.score is None:
            failures[trial.outcome] += 1
        else:
            lowest = trial.score if lowest is None else min(lowest, trial.score)
            highest = trial.score if highest is None else max(highest, trial.score)
    return Tally(count, last, lowest, highest, tuple(sorted(failures.items())))


def summarised(idea: Idea, fitness: Fitness) -> Summary:
    """The summary of all experiments on an idea."""
    whole = tallied(idea.earlier, idea.trials)
    both = [score for score in (whole.lowest, whole.highest) if score is not None]
    best = fitness.best(both) if both else None
    failures = tuple(sorted(whole.failures, key=lambda failure: (-failure[1], failure[0])))
    return Summary(whole.tried, sum(times for _, times in failures), best, failures)
