"""Run `pace` in this process and write the files that one candidate's way enters: for house_figures.py.

    python scripts/documentation/trace_candidate.py CHECKOUT OUT.json run TASK ...

The way is that of the second candidate, because the first call of many functions also imports. It begins where a
`LeaseOpened` fact is made and ends where the next one is. A context variable set at its begin marks the search thread's
task, and the tasks it starts inherit it, so gauges, displays and watchers do not count. A coroutine that goes on after
an await is not entered again.
"""

import dis
import json
import sys
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

FACT = "LeaseOpened"
SECOND = 2
_lease: ContextVar[int] = ContextVar("lease", default=0)


@cache
def _begin(code: CodeType) -> int:
    """Where the first RESUME stands: a frame whose last instruction lies beyond it goes on, it does not begin."""
    return next((one.offset for one in dis.get_instructions(code) if one.opname == "RESUME"), 0)


class Tracer:
    """A profile function that notes each call from one file of the package into another."""

    def __init__(self, package: Path) -> None:
        self._package = f"{package}/"
        self._opened = 0
        self.steps: list[str] = []

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code.co_name == "__init__" and type(frame.f_locals.get("self")).__name__ == FACT:
            self._opened += 1
            _lease.set(self._opened)
        if _lease.get() != SECOND or not code.co_filename.startswith(self._package):
            return
        if frame.f_lasti > _begin(code):
            return
        step = code.co_filename.removeprefix(self._package)
        if not self.steps or self.steps[-1] != step:
            self.steps.append(step)


def main() -> None:
    checkout, out, *arguments = sys.argv[1:]
    tracer = Tracer(Path(checkout) / "pace_async")
    sys.argv = ["pace", *arguments]
    from pace_async.cli.main import main as pace

    sys.setprofile(tracer)
    code: int | str | None = 0
    try:
        pace()
    except SystemExit as end:
        code = end.code
    finally:
        sys.setprofile(None)
    Path(out).write_text(json.dumps(tracer.steps))
    raise SystemExit(code)


if __name__ == "__main__":
    main()
