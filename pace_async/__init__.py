"""pace: evolutionary program search that learns what to try, without ever waiting for its learner.

`pace_async.run` searches, `pace_async.open` reads a run (docs/python.md). What a name needs is
loaded when the name is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pace_async.interface.comparing import compare
    from pace_async.interface.evaluating import evaluate_program, evaluate_program_async
    from pace_async.interface.own_program import optimize
    from pace_async.interface.reading import Run, open
    from pace_async.interface.running import Going, go_on, resume, run, start
    from pace_async.interface.simulating import simulate_run, simulate_run_async
    from pace_async.interface.tasks_in_code import Task

__version__ = "0.2.0"
__all__ = [
    "Going",
    "Run",
    "Task",
    "__version__",
    "compare",
    "evaluate_program",
    "evaluate_program_async",
    "go_on",
    "open",
    "optimize",
    "resume",
    "run",
    "simulate_run",
    "simulate_run_async",
    "start",
]

_FROM = {
    **dict.fromkeys(("Run", "open"), "pace_async.interface.reading"),
    **dict.fromkeys(("evaluate_program", "evaluate_program_async"), "pace_async.interface.evaluating"),
    **dict.fromkeys(("Going", "go_on", "resume", "run", "start"), "pace_async.interface.running"),
    **dict.fromkeys(("simulate_run", "simulate_run_async"), "pace_async.interface.simulating"),
    "compare": "pace_async.interface.comparing",
    "optimize": "pace_async.interface.own_program",
    "Task": "pace_async.interface.tasks_in_code",
}


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_FROM[name]), name)


def __dir__() -> list[str]:
    """What a notebook completes: the interface, without what is imported here."""
    return sorted(__all__)
