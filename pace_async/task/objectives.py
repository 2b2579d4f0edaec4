"""The field `objectives` of task.yaml: several metrics that count, instead of one score."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pace_async.aims import MOST_AIMS, Aim
from pace_async.fitness import Direction
from pace_async.outside import LONGEST_NAME

OWN_NUMBER = frozenset(("score", "combined_score"))
"""Names of the one number that the objectives come to, which therefore are no metric's."""
THEIRS = ("direction", "bounds")
"""Fields that each objective has, and a task with objectives does not."""


class Bounds(BaseModel):
    """The scores between which progress is measured. Outside them it is clamped."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    lower: float = Field(description="Score at which progress is 0 when maximising.")
    upper: float = Field(description="Score at which progress is 1 when maximising.")

    @model_validator(mode="after")
    def _ordered(self) -> "Bounds":
        if not self.lower < self.upper:
            raise ValueError(f"bounds.lower ({self.lower}) must be below bounds.upper ({self.upper})")
        return self


class Objective(BaseModel):
    """One objective: a metric that the evaluator reports, which way it is better, and between which values."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    metric: str = Field(min_length=1, max_length=LONGEST_NAME, description="The name of the metric.")
    direction: Direction = Field(description="Whether a higher or a lower value is better.")
    bounds: Bounds = Field(description="The values between which it counts.")
    at_least: float | None = Field(default=None, description="A program with less breaks a constraint.")
    at_most: float | None = Field(default=None, description="A program with more breaks a constraint.")

    @model_validator(mode="after")
    def _can_be_kept(self) -> "Objective":
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"nothing is at_least {self.at_least:g} and at_most {self.at_most:g}")
        return self

    @property
    def aim(self) -> Aim:
        """The same as a value."""
        higher = self.direction == "maximize"
        return Aim(self.metric, higher, self.bounds.lower, self.bounds.upper, self.at_least, self.at_most)


def refuse_unless_several(objectives: tuple[Objective, ...]) -> None:
    """Raises ValueError unless there are none, or several whose names say which is which."""
    if not objectives:
        return
    if not 2 <= len(objectives) <= MOST_AIMS:
        raise ValueError(
            f"{len(objectives)} given, and 2 to {MOST_AIMS} are possible; a single one is the score itself, with "
            "direction and bounds"
        )
    name, count = Counter(objective.metric for objective in objectives).most_common(1)[0]
    if count > 1:
        raise ValueError(f"the metric {name!r} is named {count} times")
    if clashes := [objective.metric for objective in objectives if objective.metric in OWN_NUMBER]:
        raise ValueError(
            f"{clashes[0]!r} is the number that all objectives come to: let the evaluator report the metric under "
            "another name"
        )


def completed(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a task.yaml, with the direction and the bounds of what its objectives come to, where it has any.
    Raises ValueError if it gives them itself."""
    if not fields.get("objectives"):
        return fields
    for name in THEIRS:
        if name in fields:
            raise ValueError(f"leave out {name}: each of the objectives has its own")
    return {**fields, "direction": "maximize", "bounds": {"lower": 0.0, "upper": 1.0}}
