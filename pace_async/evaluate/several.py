"""What an evaluation comes to in a task with several objectives. Pure."""

from dataclasses import replace

from pace_async.evaluate.base import Evaluation
from pace_async.task import FULL, PRACTICE, TaskSpec

NAMED = 8
"""Reported metrics that are named beside a missing one."""


def come_to(spec: TaskSpec, stage: str, evaluation: Evaluation) -> Evaluation:
    """The evaluation with the score that its metrics come to. It is invalid if one of them was not reported. The score
    of a cheap stage stays what the evaluator gave."""
    fitness = spec.fitness
    if not fitness.aims or evaluation.score is None or stage not in (FULL, PRACTICE):
        return evaluation
    missing = [aim.metric for aim in fitness.aims if aim.metric not in evaluation.metrics]
    if not missing:
        return replace(evaluation, score=fitness.score_of(fitness.costs(evaluation.metrics)))
    names = ", ".join(list(evaluation.metrics)[:NAMED]) or "none"
    reason = f"the evaluator reported no metric {missing[0]!r}, which is an objective; it reported: {names}"
    return replace(evaluation, outcome="invalid_score", score=None, metrics={}, detail=reason, evaluator_error=reason)
