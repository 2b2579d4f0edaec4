"""Evaluators (`evaluation.evaluators`): where programs run.

The code of an evaluator is a context manager in which it scores programs.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pace_async.registry.base import Entry, Registry, later

if TYPE_CHECKING:
    from pace_async.config import EvaluationConfig
    from pace_async.evaluate import assemble
    from pace_async.evaluate.assemble import OpensEvaluator
    from pace_async.evaluate.on_ray import evaluator, look
    from pace_async.evaluate.on_ray.look import Looked
    from pace_async.task import TaskSpec
else:
    (assemble,) = later("pace_async.evaluate", "assemble")
    evaluator, look = later("pace_async.evaluate.on_ray", "evaluator", "look")


@dataclass(frozen=True, slots=True)
class EvaluatorKind(Entry["OpensEvaluator"]):
    """`check` gives what refuses a run that could not be evaluated, before anything is written. `look` gives what
    reports what each machine can do. Both take the settings of the evaluation, `check` also the task's specification,
    or None for a run that goes on. They are None where this machine is the only one. `elsewhere`: the slots are on
    other machines, and this machine scores only the seed program."""

    check: "Callable[[], Callable[[EvaluationConfig, TaskSpec | None], Awaitable[None]]] | None" = None
    look: "Callable[[], Callable[[EvaluationConfig], Awaitable[Sequence[Looked]]]] | None" = None
    elsewhere: bool = False


EVALUATORS = Registry(
    "evaluator",
    EvaluatorKind("local", "programs run on this machine, in a sandbox", lambda: assemble.open_evaluator),
    EvaluatorKind(
        "ray",
        "programs run on the nodes of a Ray cluster, each in its node's sandbox",
        lambda: evaluator.open_ray_evaluator,
        check=lambda: look.refuse_unless_there,
        look=lambda: look.look,
        elsewhere=True,
    ),
)
