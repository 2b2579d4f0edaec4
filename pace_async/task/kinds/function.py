"""A `function` task: a candidate is a Python function, which is called once with each instance."""

from typing import TYPE_CHECKING

from pace_async.programs.languages import PYTHON
from pace_async.programs.text import split_block
from pace_async.task.kinds.base import TaskKind

if TYPE_CHECKING:
    from pace_async.task.spec import TaskSpec


class FunctionTask(TaskKind):
    """See `TaskKind`."""

    name = "function"
    calls_function = True

    def check(self, spec: "TaskSpec") -> None:
        if spec.environment.prefix:
            raise ValueError(
                "environment.prefix is for tasks that say kind: process or kind: command, because the Python that "
                "runs pace calls a function"
            )
        super().check(spec)
        if not spec.entry:
            raise ValueError("entry is missing: it names the function that is called with each instance")
        if spec.build or spec.run or spec.language != PYTHON:
            raise ValueError("build, run and another language are for tasks that say kind: process")

    def contract(self, spec: "TaskSpec") -> str:
        return f"The function `{spec.entry}` is called once for each instance"

    def parts(self, program: str) -> tuple[str, str, str]:
        return split_block(program)
