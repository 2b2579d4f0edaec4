"""The seam between a program and its score. Only values cross it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pace_async.events import Outcome


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`score` is None unless outcome is ok; `metrics` are finite; `seconds` is wall clock, taken outside the
    candidate; `detail` is one short printable line for a person and for the advisor; `memoised` says that an equal
    program was scored before and nothing was run."""

    outcome: Outcome
    score: float | None
    seconds: float
    detail: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    memoised: bool = False


class Evaluator(Protocol):
    """Scores one program in a sandbox. Never raises for what a candidate does: that is in the outcome."""

    async def evaluate(self, program: str, seed: int) -> Evaluation:
        """`seed` chooses the instances. Outcome infrastructure_error means: not the candidate's fault."""
        ...
