"""In what the kinds of tasks differ. Whatever depends on the kind asks `TaskSpec.of_kind`, and no name is compared.

Another kind is a file of this folder and an entry of `TASK_KINDS`. Fields of its own are a base of `TaskSpec`.
"""

from typing import TYPE_CHECKING, ClassVar

from pace_async.programs.text import editable

if TYPE_CHECKING:
    from pace_async.task.spec import TaskSpec

SHARED_TRUST = "shared"
HIDDEN_SCORER = "hidden"
"""Whose program can reach the scorer, as in the run's row."""


class TaskKind:
    """`hides_scorer`: a trusted process scores what a program returns. Else the evaluator runs in the candidate's
    sandbox, on all its processors, and a program could write its own score. `calls_function`: a candidate is a Python
    function. `is_built`: it is a program of its own, which commands build and start. `does`: what commands do to a
    program, as in "runs"."""

    name: ClassVar[str]
    hides_scorer: ClassVar[bool] = True
    calls_function: ClassVar[bool] = False
    is_built: ClassVar[bool] = False

    @property
    def trust(self) -> str:
        """Whether programs can reach what scores them, as in the run's row."""
        return HIDDEN_SCORER if self.hides_scorer else SHARED_TRUST

    def check(self, spec: "TaskSpec") -> None:
        """Raises ValueError if the fields of a task of this kind do not fit together."""
        spec.refuse_command_fields()
        spec.refuse_file_fields()
        if any(stage.function for stage in spec.cascade):
            raise ValueError("a stage of the cascade has a function only in tasks that say kind: command")

    def contract(self, spec: "TaskSpec") -> str:
        """How a program is called or started, without a full stop at its end."""
        raise NotImplementedError

    def parts(self, program: str) -> tuple[str, str, str]:
        """What stands before the evolve block of a seed program, the block, and what stands after it. Raises ValueError
        if there is not exactly one."""
        return editable(program)

    def commands(self, spec: "TaskSpec") -> list[tuple[str, str]]:
        """The commands that must be on this machine, each with what it does to programs, as in "builds"."""
        return []

    def evaluator_file(self, spec: "TaskSpec") -> str | None:
        """The file of the evaluator, None where a command evaluates."""
        return spec.evaluator
