"""A `process` task: commands build and start the candidate, which may be written in any language."""

import re
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from pace_async.task.kinds.base import TaskKind

if TYPE_CHECKING:
    from pace_async.task.spec import TaskSpec


class ProcessFields(BaseModel):
    """What only a task of `kind: process` has."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    build: tuple[str, ...] = Field(
        default=(), description="The command of a process task that makes something to run of a program, if any."
    )
    run: tuple[str, ...] = Field(default=(), description="The command of a process task that starts a built program.")
    protocol: str = Field(
        default="",
        description="What models are told of how a program is run, what it reads and what it writes, where the command "
        "is a process around it. By default the command, and one JSON value a line.",
    )
    build_timeout_s: float = Field(default=60.0, gt=0, description="Wall-clock limit of one build, in seconds.")
    build_memory_mb: int = Field(default=2048, gt=0, description="Memory limit of one build, in MiB.")
    build_mb: float = Field(default=32.0, gt=0, description="Limit on what a build leaves, in MiB.")


class ProcessTask(TaskKind):
    """See `TaskKind`."""

    name = "process"
    is_built = True

    def check(self, spec: "TaskSpec") -> None:
        super().check(spec)
        if not spec.run:
            raise ValueError("run is missing: it is the command that starts a program, as in [./program]")
        if spec.entry or spec.files:
            raise ValueError("a task of kind process has one file and no entry: leave files and entry out")
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", spec.program):
            raise ValueError("program must name a file of the task's folder, as in initial.cpp")

    def contract(self, spec: "TaskSpec") -> str:
        built = f" is built by `{' '.join(spec.build)}`, without network, and" if spec.build else ""
        if spec.protocol:
            return f"The program{built} {spec.protocol.strip().rstrip('.')}"
        return (
            f"The program{built} is started by `{' '.join(spec.run)}`. It reads one JSON value a line from standard "
            "input and writes one JSON value a line to standard output for each, flushed, and nothing else there"
        )

    def commands(self, spec: "TaskSpec") -> list[tuple[str, str]]:
        return [(command[0], does) for command, does in ((spec.build, "builds"), (spec.run, "runs")) if command]
