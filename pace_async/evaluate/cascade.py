"""Cheap stages first: the full evaluation runs only for a program that passes every cheap stage.

Invariant: a score of a cheap stage is never the program's score. A program that a stage stops has no score, and the
outcome "below_threshold". A program that fails in a stage has the outcome of its failure. The scores of the stages
stand beside it. Each stage is an evaluation of its own. `passed` is called after each stage that is passed, before the
next begins. The stages in `done` are not run again.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from pace_async.evaluate.base import Evaluation, EvaluationId, EvaluationRequest, Evaluator, Limits, evaluate
from pace_async.events import CascadeScore, EvaluationAttempted
from pace_async.fitness import Fitness
from pace_async.task import FULL, CascadeStage, TaskSpec

Passed = Callable[[CascadeScore, tuple[EvaluationAttempted, ...]], Awaitable[None]]


def first_attempt(identity: EvaluationId) -> int:
    return 1


async def cascaded(
    evaluator: Evaluator,
    spec: TaskSpec,
    request: EvaluationRequest,
    *,
    done: Sequence[CascadeScore] = (),
    passed: Passed | None = None,
    number: Callable[[EvaluationId], int] = first_attempt,
) -> Evaluation:
    """The evaluation of a program of this task. `request` is for the full evaluation. `number` gives the attempt for
    each stage. `seconds` are those of all stages, and `memoised` means that none of them was run. `done` are the first
    stages if they were passed already. The attempts of a stage go to `passed` with its score, or are part of the
    result."""
    scores, before = list(done), Evaluation("ok", None, 0.0)
    for stage in spec.cascade[len(done) :]:
        evaluation = _after(before, await evaluate(evaluator, _of_stage(request, spec, stage.name, number)))
        if evaluation.outcome == "infrastructure_error":
            return evaluation
        score = _score(stage, evaluation, spec.fitness)
        scores.append(score)
        if not score.passed:
            return _summed(_stopped(stage, evaluation), scores[:-1], scores)
        if passed is not None:
            await passed(score, evaluation.attempts)
            evaluation = replace(evaluation, attempts=())
        before = evaluation
    full = await evaluate(evaluator, _of_stage(request, spec, FULL, number))
    return _summed(_after(before, full), scores, scores)


def _of_stage(
    request: EvaluationRequest, spec: TaskSpec, stage: str, number: Callable[[EvaluationId], int]
) -> EvaluationRequest:
    if stage == FULL and number(request.id) == request.id.attempt:  # nearly every request
        return request
    identity = replace(request.id, stage=stage)
    limits, bar = (request.limits, request.bar) if stage == FULL else (Limits.of(spec, stage), None)
    return replace(request, id=replace(identity, attempt=number(identity)), limits=limits, bar=bar)


def _after(before: Evaluation, evaluation: Evaluation) -> Evaluation:
    """The evaluation with the unreported attempts of the stages before it, and their wait."""
    if not before.attempts and not before.queue_seconds:
        return evaluation
    waited = before.queue_seconds + evaluation.queue_seconds
    return replace(evaluation, attempts=(*before.attempts, *evaluation.attempts), queue_seconds=waited)


def _score(stage: CascadeStage, evaluation: Evaluation, fitness: Fitness) -> CascadeScore:
    return CascadeScore(
        stage=stage.name,
        outcome=evaluation.outcome,
        score=evaluation.score,
        threshold=stage.threshold,
        passed=evaluation.score is not None and fitness.reaches(evaluation.score, stage.threshold),
        seconds=evaluation.seconds,
        memoised=evaluation.memoised,
    )


def _stopped(stage: CascadeStage, evaluation: Evaluation) -> Evaluation:
    if evaluation.score is None:
        return evaluation
    detail = f"stage {stage.name}: {evaluation.score:.6g}, and {stage.threshold:g} is asked for"
    return replace(evaluation, outcome="below_threshold", score=None, detail=detail, metrics={}, evaluator_error="")


def _summed(last: Evaluation, before: Sequence[CascadeScore], scores: Sequence[CascadeScore]) -> Evaluation:
    """`last` with the time of the stages before it, and all scores. A fault of the infrastructure stays as it is."""
    if last.outcome == "infrastructure_error" or not scores:
        return last
    return replace(
        last,
        seconds=last.seconds + sum(score.seconds for score in before),
        memoised=last.memoised and all(score.memoised for score in before),
        cascade=tuple(scores),
    )
