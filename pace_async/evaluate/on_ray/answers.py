"""Checks what a node answers, before anything of it is recorded.

Invariant: an answer is of the identity that was asked for, and its attempts are numbered on from it. At most the last
of them is accepted. So a node can invent the score of a program that it was given, and no other row.
"""

from pace_async.evaluate.base import Evaluation, EvaluationId
from pace_async.outside import is_bounded

LONGEST_S = 1e10
"""No time since the epoch, and no duration, is longer."""


def why_wrong(answer: object, asked: EvaluationId) -> str:
    """How an answer contradicts what was asked, or itself. Empty if it does not."""
    if not isinstance(answer, Evaluation):
        return f"it answered with {type(answer).__name__} in place of an evaluation"
    attempts = answer.attempts
    if any((one.lease, one.stage, one.fresh) != asked.series for one in attempts):
        return "it answered for an evaluation that it was not asked for"
    if [one.attempt for one in attempts] != [asked.attempt + number for number in range(len(attempts))]:
        return "it answered for an attempt that it was not asked for"
    if any(one.accepted for one in attempts[:-1]):
        return "it answered with two results"
    if attempts and attempts[-1].accepted != (answer.outcome != "infrastructure_error"):
        return "its answer and its attempts contradict each other"
    times = [time for one in attempts for time in (one.seconds, one.queue_seconds, one.started_at, one.ended_at)]
    if not all(_is_number(one) and 0 <= one < LONGEST_S for one in (answer.seconds, answer.queue_seconds, *times)):
        return "it answered with a time that is no time"
    if (answer.outcome == "ok") != _is_number(answer.score) or (answer.outcome != "ok" and answer.score is not None):
        return f"it answered {answer.outcome} with the score {answer.score!r:.40}"
    return ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and is_bounded(value)
