"""Evaluators (`evaluation.evaluators`): where programs run.

The code of an evaluator is a context manager in which it scores programs: `evaluate.assemble.OpensEvaluator`.
"""

from dataclasses import dataclass

from pace_async.registry.base import Entry, Registry


@dataclass(frozen=True, slots=True)
class EvaluatorKind(Entry):
    """`check` names what refuses a run that could not be evaluated, before anything is written. `look` names what
    reports what each machine can do. Both are called with the settings of the evaluation, `check` also with the task's
    specification, or with None for a run that goes on. They are empty where this machine is the only one. `elsewhere`:
    the slots are on other machines, and this machine scores only the seed program."""

    check: str = ""
    look: str = ""
    elsewhere: bool = False


EVALUATORS = Registry(
    "evaluator",
    EvaluatorKind("local", "programs run on this machine, in a sandbox", "pace_async.evaluate.assemble:open_evaluator"),
    EvaluatorKind(
        "ray",
        "programs run on the nodes of a Ray cluster, each in its node's sandbox",
        "pace_async.evaluate.on_ray.evaluator:open_ray_evaluator",
        check="pace_async.evaluate.on_ray.look:refuse_unless_there",
        look="pace_async.evaluate.on_ray.look:look",
        elsewhere=True,
    ),
)
