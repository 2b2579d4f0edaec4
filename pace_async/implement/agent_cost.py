"""The cost of an agent's call, as the agent reports it. Pure.

The last line of its standard output that is a JSON object counts. It names the cost as `cost_usd`, or as
`total_cost_usd`, as Claude Code does.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

NAMES = ("cost_usd", "total_cost_usd")
MOST_USD = 10_000.0
"""A call does not cost more. A larger number is a mistake."""
LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Reported:
    """`usd` is the cost, None if no valid one was reported. `mistake` says what is wrong with an invalid one."""

    usd: float | None = None
    mistake: str = ""


NOT_REPORTED = Reported()


def reported_cost(output: str) -> Reported:
    """The cost in the last JSON line of `output`."""
    lines = list(json_lines(output))
    last = lines[-1] if lines else {}
    name = next((name for name in NAMES if name in last), None)
    return NOT_REPORTED if name is None else _cost(name, last[name])


def json_lines(output: str) -> Iterator[dict[str, Any]]:
    """The lines that are a JSON object, in order."""
    for line in output.splitlines():
        if (said := _object(line)) is not None:
            yield said


def _object(line: str) -> dict[str, Any] | None:
    line = line.strip()
    if not (line.startswith("{") and line.endswith("}")):
        return None
    try:
        said: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", said) if isinstance(said, dict) else None


def _cost(name: str, value: object) -> Reported:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST_USD:
        return Reported(float(value))
    shown = value if isinstance(value, float) and not math.isfinite(value) else json.dumps(value, ensure_ascii=False)
    text = str(shown)
    text = text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"
    return Reported(None, f"{name} is {text}, and not a number of USD from 0 to {MOST_USD:g}")
