"""pace: evolutionary program search that learns what to try, without ever waiting for its learner.

`pace_async.run` searches, `pace_async.open` reads a run (docs/python.md). What a name needs is
loaded when the name is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pace_async.interface.reading import Run, open
    from pace_async.interface.running import Going, go_on, resume, run, start

__version__ = "0.2.0"
__all__ = ["Going", "Run", "__version__", "go_on", "open", "resume", "run", "start"]

_FROM = {
    **dict.fromkeys(("Run", "open"), "pace_async.interface.reading"),
    **dict.fromkeys(("Going", "go_on", "resume", "run", "start"), "pace_async.interface.running"),
}


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_FROM[name]), name)
