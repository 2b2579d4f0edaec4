"""Whether the first outputs of a task's seed program have scores of their own, by which evaluations may end early."""

from collections.abc import Awaitable
from typing import Protocol

from pace_async.evaluate.base import Evaluation
from pace_async.evaluate.pruning import Bar
from pace_async.observe.formatting import count
from pace_async.task import Task


class Scores(Protocol):
    """Scores the seed program, with values of its first outputs where there is a bar."""

    def __call__(self, *, bar: Bar) -> Awaitable[Evaluation]: ...


async def first_outputs_checked(task: Task, score: Scores) -> tuple[bool, str, str]:
    """Whether `so_far` values them, what was found, and the remedy."""
    evaluation = await score(bar=Bar("median", task.spec.fitness))  # nothing falls below a bar without steps
    if not evaluation.curve:
        remedy = f"let so_far in {task.spec.evaluator} score the first outputs alone, of two instances or more"
        return False, "none of the seed program's has one", remedy
    step, value = evaluation.curve[-1]
    return True, f"{count(len(evaluation.curve), 'value')}, {value:.6g} after {count(step, 'output')}", ""
