"""A score that would be a new best is measured again before anything is decided by it.

The best of many noisy scores is mostly the luckiest one. So its program is evaluated again on the hidden instances, up
to `evaluation.repeats` times, for as long as the mean would still be a new best. The mean is the score of the
candidate: the claim that fresh instances then confirm, the reward, the parent. It stays a little too high, because the
first score counts in it. A repeat without a score is the result: a program that does not always work is no best.

The seconds are those of the first evaluation, and the attempts have those of each. A process that ends amid repeats
measures the program anew when it goes on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from pace_async.evaluate.base import HIDDEN, Evaluation, EvaluationId, EvaluationLost, EvaluationRequest, evaluate
from pace_async.events import EvaluationAttempted
from pace_async.runtime.run.core import Core
from pace_async.runtime.run.patience import EVALUATE, Patience
from pace_async.task import FULL


async def measured_again(
    core: Core, patience: Patience, lease: int, program: str, found: Evaluation, claims: Callable[[float], bool]
) -> Evaluation:
    """The evaluation with the mean score of all, or as it was found where nothing is repeated. `claims`: whether a
    score would be a new best. Raises Lost, LeftOpen, GaveUp."""
    repeats = core.config.evaluation.repeats
    if not repeats or found.score is None or not claims(found.score):
        return found
    made, untold = [found], list(_with_score(found))

    async def again() -> Evaluation:
        newest = max(core.state.next_attempt((lease, FULL, HIDDEN)) - 1, *(one.attempt for one in untold), 0)
        identity = EvaluationId(core.run, lease, attempt=newest + 1)
        request = EvaluationRequest.of(core.task.spec, identity, program, core.config.evaluation.seed)
        came = await evaluate(core.stages.evaluator, request)
        if came.outcome == "infrastructure_error":
            lost = *untold, *came.attempts
            untold.clear()  # they are recorded with the failure
            raise EvaluationLost(came.detail, lost)
        return came

    while len(made) <= repeats and claims(_mean(made)):
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
