"""A score is measured again where it decides something: as a new best, and as that of a parent.

The best of many noisy scores is mostly the luckiest one. So the program of a new best is evaluated again on the hidden
instances, up to `evaluation.repeats` times, for as long as the mean would still be a new best. With
`evaluation.repeats_for: parents` a program that was measured less often is measured once more whenever it is chosen as
a parent, so one that often decides is measured often. The mean is the score of the candidate: the claim that fresh
instances then confirm, the reward of its own rollout if it was known then, the parent. It stays a little too high,
because the first score counts in it. A repeat without a score is the result: a program that does not always work is
neither a best nor a parent.

The seconds are those of the first evaluation, and the attempts have those of each. A process that ends amid repeats
measures anew what it had not committed. Parents are not measured again in a task with several objectives, nor is the
task's own program, from which rewards and confirmations are counted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from pace_async.evaluate.base import HIDDEN, Evaluation, EvaluationId, EvaluationLost, EvaluationRequest, evaluate
from pace_async.events import EvaluationAttempted, MeasuredAgain
from pace_async.population.reading.confirmed import newest_attempt
from pace_async.runtime.run.core import Core
from pace_async.runtime.run.patience import EVALUATE, LeaseLost, Patience
from pace_async.search.state import Member
from pace_async.state.notes import group_to_see
from pace_async.task import FULL


async def measured_again(
    core: Core, patience: Patience, lease: int, program: str, first: Evaluation, claims: Callable[[float], bool]
) -> Evaluation:
    """The evaluation with the mean score of all, or as it was found where nothing is repeated. `claims`: whether a
    score would be a new best. Raises LeaseLost, LeftOpen, GaveUp."""
    repeats = core.config.evaluation.repeats
    if not repeats or first.score is None or not claims(first.score) or not _affordable(core):
        return first
    evaluations, untold = [first], list(_with_score(first))
    for ended in core.repeating.keys() - core.state.running.keys():
        del core.repeating[ended]

    async def again() -> Evaluation:
        newest = max(core.state.next_attempt((lease, FULL, HIDDEN)) - 1, *(item.attempt for item in untold), 0)
        evaluation = await _evaluated(core, lease, newest + 1, program)
        if evaluation.outcome == "infrastructure_error":
            lost = *untold, *evaluation.attempts
            untold.clear()  # they are recorded with the failure
            raise EvaluationLost(evaluation.detail, lost)
        return evaluation

    while len(evaluations) <= repeats and claims(_mean(evaluations)) and _affordable(core):
        core.repeating[lease] = len(evaluations)
        evaluation = await patience.tried(EVALUATE, lease, again)
        evaluations.append(evaluation)
        untold += _with_score(evaluation)
        if evaluation.score is None:
            break
    waited = sum(item.queue_seconds for item in evaluations)
    if evaluations[-1].score is None:
        return replace(evaluations[-1], cascade=first.cascade, queue_seconds=waited, attempts=tuple(untold))
    metrics = _means([item.metrics for item in evaluations])
    return replace(first, score=_mean(evaluations), metrics=metrics, queue_seconds=waited, attempts=tuple(untold))


async def measured_as_parent(core: Core, patience: Patience, lease: int, parent: Member) -> Member:
    """The parent that a lease has chosen, with the score that it has after it was measured once more, if it was. A
    failure of the machine leaves it as it is. Raises LeftOpen, GaveUp."""
    candidate = parent.candidate
    if _is_due(core, candidate):
        core.measuring.add(candidate)
        try:
            newest = await newest_attempt(core.recorder.population, core.run, candidate)
            if newest is not None:
                return await _measured(core, patience, lease, parent, newest)
        except LeaseLost as lost:
            await core.record(*lost.facts)
        finally:
            core.measuring.discard(candidate)
    return parent


def _is_due(core: Core, candidate: int) -> bool:
    state, evaluation = core.state, core.config.evaluation
    if evaluation.repeats_for != "parents" or candidate == 0 or core.task.spec.aims:
        return False
    due = max(1, len(state.repeated.get(candidate, ()))) <= evaluation.repeats
    return due and candidate not in {*state.measured, *core.measuring} and _affordable(core)


async def _measured(core: Core, patience: Patience, lease: int, parent: Member, newest: int) -> Member:
    candidate, state = parent.candidate, core.state

    async def again() -> Evaluation:
        nonlocal newest
        evaluation = await _evaluated(core, candidate, newest + 1, parent.program)
        newest = max(newest, *(attempt.attempt for attempt in evaluation.attempts))
        if evaluation.outcome == "infrastructure_error":
            raise EvaluationLost(evaluation.detail, evaluation.attempts)
        return evaluation

    evaluation = await patience.tried(EVALUATE, lease, again)
    scores = (
        *(state.repeated.get(candidate) or (parent.score,)),
        *([evaluation.score] if evaluation.score is not None else []),
    )
    now, group = core.stages.clock.now(), group_to_see(state) or 0
    fact = MeasuredAgain(candidate, evaluation.outcome, evaluation.detail, scores, group, now)
    await core.record(*_with_score(evaluation), fact)
    return parent if fact.score is None or group else replace(parent, score=fact.score)


async def _evaluated(core: Core, lease: int, attempt: int, program: str) -> Evaluation:
    identity = EvaluationId(core.run, lease, attempt=attempt)
    return await evaluate(
        core.stages.evaluator, EvaluationRequest.of(core.task.spec, identity, program, core.config.evaluation.seed)
    )


def _affordable(core: Core) -> bool:
    """Whether one more repeat is within the budget of the run, beside those that are made at this moment."""
    share, state = core.config.evaluation.repeats_budget, core.state
    if share is None:
        return True
    open_ones = (
        max(core.repeating.get(lease, 0), len(state.repeated.get(lease, ())) - 1) for lease in core.state.running
    )
    repeats = 1 + state.repeats + len(core.measuring) + sum(open_ones)
    return repeats <= share * (state.evaluated + repeats)


def scores_of(attempts: Sequence[EvaluationAttempted]) -> tuple[float, ...]:
    """The scores that attempts keep: those of a program that was evaluated several times."""
    return tuple(attempt.score for attempt in attempts if attempt.score is not None)


def _mean(evaluations: Sequence[Evaluation]) -> float:
    return fmean(evaluation.score for evaluation in evaluations if evaluation.score is not None)


def _means(metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each metric that every evaluation has."""
    return {name: fmean(row[name] for row in metrics) for name in metrics[0] if all(name in row for row in metrics)}


def _with_score(evaluation: Evaluation) -> tuple[EvaluationAttempted, ...]:
    """The attempts of an evaluation, the accepted one with its score."""
    return tuple(
        replace(attempt, score=evaluation.score) if attempt.accepted else attempt for attempt in evaluation.attempts
    )
