"""Whether a task's practice instances can be used beside its scored ones, and what practice costs its seed program."""

from collections.abc import Awaitable, Callable

from pace_async.errors import UsageError
from pace_async.evaluate.base import SECRET_SEEDS, Evaluation, Limits
from pace_async.evaluate.practice import not_apart
from pace_async.evaluate.scorer.scorer_client import Scorers
from pace_async.task import PRACTICE, Task

MOST = 0.8
"""The share of its time limit that the seed program may take."""


async def practice_checked(
    task: Task, scorers: Scorers, seed: int, practise: Callable[[], Awaitable[Evaluation]]
) -> tuple[bool, str, str]:
    """Whether all is well, what was found, and what to do if not. Compared are the instances of the seed and of a seed
    like the fresh ones, in every stage. `practise` runs the seed program on the practice instances."""
    file = task.spec.evaluator
    try:
        wrong = await not_apart(task, scorers, seed, SECRET_SEEDS)
    except UsageError as error:
        return False, str(error), f"let practice in {file} take every whole number below 2**65"
    if wrong:
        return False, wrong, f"let practice in {file} make instances that score nothing"
    evaluation, limit = await practise(), Limits.of(task.spec, PRACTICE).seconds
    count = len(await scorers.instances(seed, PRACTICE))
    summary = f"{count} instance{'s' if count > 1 else ''}, {evaluation.seconds:.2f} s of {limit:g} s"
    if evaluation.score is None:
        detail = f"{evaluation.outcome}: {evaluation.detail}" if evaluation.detail else evaluation.outcome
        reason = evaluation.evaluator_error or detail
        return (
            False,
            f"{summary}; the seed program gets no score ({reason})",
            f"let score in {file} take practice instances",
        )
    summary = f"{summary}, score {evaluation.score:.6g}, {len(evaluation.feedback)} characters printed"
    if evaluation.seconds > MOST * limit:
        return (
            False,
            summary,
            f"let practice in {file} make fewer or smaller instances: a slower machine would fail them",
        )
    return True, summary, ""
