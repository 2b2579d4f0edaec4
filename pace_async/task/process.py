"""The fields of a `process` task: commands build and start the candidate, which may be written in any language."""

import re
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field


class ProcessFields(BaseModel):
    """What only a task of `kind: process` has."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    build: tuple[str, ...] = Field(
        default=(), description="The command of a process task that makes something to run of a program, if any."
    )
    run: tuple[str, ...] = Field(default=(), description="The command of a process task that starts a built program.")
    build_timeout_s: float = Field(default=60.0, gt=0, description="Wall-clock limit of one build, in seconds.")
    build_memory_mb: int = Field(default=2048, gt=0, description="Memory limit of one build, in MiB.")
    build_mb: float = Field(default=32.0, gt=0, description="Limit on what a build leaves, in MiB.")

    def check_process(self, program: str, entry: str, files: Sequence[str]) -> None:
        """Raises ValueError if the fields of a process task do not fit together."""
        if not self.run:
            raise ValueError("run is missing: it is the command that starts a program, as in [./program]")
        if entry or files:
            raise ValueError("a task of kind process has one file and no entry: leave files and entry out")
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", program):
            raise ValueError("program must name a file of the task's folder, as in initial.cpp")
