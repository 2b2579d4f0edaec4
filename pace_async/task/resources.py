"""The fields of a task that say what one evaluation needs of the machine: processors, GPUs, an environment.

Only their shape is checked here, because a task may be listed and read on a machine that does not have them.
`evaluate.resources` finds them on the machine that evaluates.
"""

import re

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

SET_BY_PACE = (
    *("PATH", "HOME", "TMPDIR", "PWD", "PYTHONPATH", "PYTHONHOME", "PYTHONHASHSEED"),
    *("CUDA_VISIBLE_DEVICES", "PACE_RESULTS"),
)
"""Variables that every evaluation has, or must not have, whatever the user's environment says."""


class Environment(BaseModel):
    """What an evaluation sees of the user's environment."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    prefix: str = Field(
        default="",
        description="The folder of a conda environment or a virtual environment, seen read-only. Its commands and its "
        "Python come first. Relative to the task's folder. Only for tasks of kind process or command.",
    )
    variables: tuple[str, ...] = Field(
        default=(), description="Names of variables whose values an evaluation gets from the environment of pace."
    )

    @field_validator("variables")
    @classmethod
    def _names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(
                    f"{name.partition('=')[0]!r} is not a name of a variable; list names without their values"
                )
            if name in SET_BY_PACE:
                raise ValueError(f"{name} cannot be passed on, because pace sets it for each evaluation")
        if len(set(names)) < len(names):
            raise ValueError("each variable may be named once")
        return names


class ResourceFields(BaseModel):
    """What one evaluation needs, besides `memory_mb`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    cpus: int | None = Field(
        default=None,
        ge=1,
        description="Processors of one evaluation, which no other evaluation of the run uses. Left out: evaluations "
        "share all processors, and a function or process has processor time for one.",
    )
    gpus: float = Field(
        default=0.0,
        ge=0,
        description="GPUs of one evaluation: whole cards, or a share of one, as in 0.5 for two evaluations on a card.",
    )
    gpus_required: bool = Field(
        default=True,
        description="Whether programs need their GPUs. If false, a machine without a free card evaluates without one.",
    )
    environment: Environment = Field(
        default=Environment(), description="A prefix that is seen read-only, and variables that are passed on."
    )

    @field_validator("gpus")
    @classmethod
    def _whole_or_a_share(cls, value: float) -> float:
        if value > 1 and value != int(value):
            raise ValueError(f"{value:g} is neither a whole number of cards nor a share of one, as in 0.5")
        return value

    @model_validator(mode="after")
    def _something_is_wanted(self) -> "ResourceFields":
        if not self.gpus and not self.gpus_required:
            raise ValueError("gpus_required has no effect without gpus")
        return self
