"""The seam between a program and its score. Only values cross it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pace_async.events import CascadeScore, Outcome
from pace_async.task import FULL

SECRET_SEEDS = 1 << 128
"""Seeds from here on are secret: no file, message or program may be told one. What a user sets is far below."""


def without_secret(text: str, seed: int) -> str:
    """A text of the task's evaluator, in which a secret seed may stand, without it."""
    return text.replace(str(seed), "a fresh seed") if seed >= SECRET_SEEDS else text


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`score` is None unless outcome is ok; `metrics` are finite; `seconds` is wall clock, taken outside the
    candidate; `detail` is one short printable line for a person and for the advisor; `memoised` says that an equal
    program was scored before and nothing was run; `cascade` are the cheap stages that came before, the last of them not
    passed where the outcome is below_threshold; `evaluator_error` is where the task's evaluator made a mistake of its
    own, if it did: for a person, never for a model."""

    outcome: Outcome
    score: float | None
    seconds: float
    detail: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    memoised: bool = False
    cascade: tuple[CascadeScore, ...] = ()
    evaluator_error: str = ""


class Evaluator(Protocol):
    """Scores one program in a sandbox. Never raises for what a candidate does: that is in the outcome."""

    async def evaluate(self, program: str, seed: int, stage: str = FULL) -> Evaluation:
        """`seed`, which is secret from SECRET_SEEDS on, and `stage`, one of the task's cascade or the full evaluation,
        choose the instances. Outcome infrastructure_error means: not the candidate's fault."""
        ...
