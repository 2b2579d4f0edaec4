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
from pace_async.runtime.run.patience import EVALUATE, Lost, Patience
from pace_async.search.state import Member
from pace_async.state.notes import group_to_see
from pace_async.task import FULL


async def measured_again(
    core: Core, patience: Patience, lease: int, program: str, found: Evaluation, claims: Callable[[float], bool]
) -> Evaluation:
    """The evaluation with the mean score of all, or as it was found where nothing is repeated. `claims`: whether a
    score would be a new best. Raises Lost, LeftOpen, GaveUp."""
    repeats = core.config.evaluation.repeats
    if not repeats or found.score is None or not claims(found.score) or not _affordable(core):
        return found
    made, untold = [found], list(_with_score(found))
    for ended in core.repeating.keys() - core.state.running.keys():
        del core.repeating[ended]

    async def again() -> Evaluation:
        newest = max(core.state.next_attempt((lease, FULL, HIDDEN)) - 1, *(one.attempt for one in untold), 0)
        came = await _evaluated(core, lease, newest + 1, program)
        if came.outcome == "infrastructure_error":
            lost = *untold, *came.attempts
            untold.clear()  # they are recorded with the failure
            raise EvaluationLost(came.detail, lost)
        return came

    while len(made) <= repeats and claims(_mean(made)) and _affordable(core):
        core.repeating[lease] = len(made)
        came = await patience.tried(EVALUATE, lease, again)
        made.append(came)
        untold += _with_score(came)
        if came.score is None:
            break
    waited = sum(one.queue_seconds for one in made)
    if made[-1].score is None:
        return replace(made[-1], cascade=found.cascade, queue_seconds=waited, attempts=tuple(untold))
    metrics = _means([one.metrics for one in made])
    return replace(found, score=_mean(made), metrics=metrics, queue_seconds=waited, attempts=tuple(untold))


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
        except Lost as lost:
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
        came = await _evaluated(core, candidate, newest + 1, parent.program)
        newest = max(newest, *(one.attempt for one in came.attempts))
        if came.outcome == "infrastructure_error":
            raise EvaluationLost(came.detail, came.attempts)
        return came

    came = await patience.tried(EVALUATE, lease, again)
    scores = *(state.repeated.get(candidate) or (parent.score,)), *([came.score] if came.score is not None else [])
    now, group = core.stages.clock.now(), group_to_see(state) or 0
    fact = MeasuredAgain(candidate, came.outcome, came.detail, scores, group, now)
    await core.record(*_with_score(came), fact)
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
    made = 1 + state.repeats + len(core.measuring) + sum(open_ones)
    return made <= share * (state.evaluated + made)


def scores_of(attempts: Sequence[EvaluationAttempted]) -> tuple[float, ...]:
    """The scores that attempts keep: those of a program that was evaluated several times."""
    return tuple(one.score for one in attempts if one.score is not None)


def _mean(made: Sequence[Evaluation]) -> float:
    return fmean(one.score for one in made if one.score is not None)


def _means(metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each metric that every evaluation has."""
    return {name: fmean(one[name] for one in metrics) for name in metrics[0] if all(name in one for one in metrics)}


def _with_score(found: Evaluation) -> tuple[EvaluationAttempted, ...]:
    """The attempts of an evaluation, the accepted one with its score."""
    return tuple(replace(one, score=found.score) if one.accepted else one for one in found.attempts)
