"""Evaluators. There is one, so no setting chooses it.

The code of an evaluator is a context manager in which it scores programs: `evaluate.assemble.open_evaluator`.
"""

from pace_async.registry.base import Entry, Registry

EVALUATORS = Registry(
    "evaluator",
    Entry("local", "programs run on this machine, in a sandbox", "pace_async.evaluate.assemble:open_evaluator"),
)
