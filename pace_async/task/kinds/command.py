"""A `command` task: an evaluator of the user's, run in one sandbox together with the candidate's program.

Nothing protects such an evaluator from the candidate. A candidate can read it, change its own copy of it, and write any
score. So a run of such a task is marked as shared trust, and a score can be trusted only as far as its program.
"""

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from pace_async.programs.languages import PYTHON
from pace_async.task.kinds.base import TaskKind

if TYPE_CHECKING:
    from pace_async.task.spec import TaskSpec

LAST_LINE = "last_line"
"""`metrics` of a task whose evaluator writes them as the last line of its standard output that is a JSON object, or
writes the score alone as a number in the last line."""
PRINTED = "printed"
"""`metrics` of a task whose evaluator prints them: the last line of its standard output that is a JSON object or holds
a number. The last number of such a line is the metric `score`, beside those of the last object before it."""
MEAN = "mean"
"""The name, in `score`, of the mean of all numbers, unless a metric has that name."""
PYTHONS = ("python", "python3")
"""Words of a command that stand for the Python of the task's prefix, or the one that runs pace."""
FEEDBACK_FILE = "feedback.txt"
"""A text in the folder of results that is meant for the author of the next program."""


class PythonMetrics(BaseModel):
    """Metrics that a Python function of the evaluator's file returns."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    python: str = Field(pattern=r"^[A-Za-z_]\w*$", description="The function; it is called with the program's path.")


class CommandFields(BaseModel):
    """What only a task of `kind: command` has."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    evaluate: tuple[str, ...] = Field(
        default=(),
        description="The command of a command task that evaluates a program. {program}, {results}, {task} and {stage} "
        "stand for the program's path, an empty folder for results, the task's folder and the stage.",
    )
    metrics: str | PythonMetrics = Field(
        default="metrics.json",
        description="Where a command task's metrics are: a JSON file in {results}, last_line (of standard output, that "
        "is a JSON object), printed (the last JSON object or number there), or {python: FUNCTION}.",
    )
    score: tuple[str, ...] = Field(
        default=("combined_score",),
        description="The metric of a command task that is the score, or several of which the first that is there "
        "counts. `mean` is the mean of all numbers.",
    )
    valid: str | None = Field(
        default=None,
        description="What must be true for a program of a command task to have a score: a metric, or FILE.json:KEY.",
    )
    feedback: bool = Field(
        default=False,
        description="Whether artifacts and text of a command task's evaluator are shown to the implementer.",
    )
    path: tuple[str, ...] = Field(
        default=(), description="Folders of a command task that are added to the import path of its evaluator."
    )
    scratch_mb: int = Field(default=256, gt=0, description="Limit on the files of a command task's evaluation, in MiB.")

    @field_validator("score", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("score")
    @classmethod
    def _score_is_named(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not all(value):
            raise ValueError("score must name a metric")
        return value

    @model_validator(mode="after")
    def _places_are_inside(self) -> "CommandFields":
        files = [] if isinstance(self.metrics, PythonMetrics) else [self.metrics]
        if self.valid is not None and ":" in self.valid:
            files.append(self.valid.rpartition(":")[0])
        for name in files:
            if not is_inside(name):
                raise ValueError(f"{name!r} must be a file in the folder of results, as in metrics.json")
        for folder in self.path:
            if not is_inside(folder):
                raise ValueError(f"path: {folder!r} must be a folder of the task's folder, as in shims")
        return self

    def refuse_command_fields(self) -> None:
        """Raises ValueError if a field that only a command task has differs from its default."""
        fields = CommandFields.model_fields.items()
        names = [name for name, field in fields if getattr(self, name) != field.get_default(call_default_factory=True)]
        if names:
            raise ValueError(f"{', '.join(names)}: only for tasks that say kind: command")

    @property
    def python_function(self) -> str:
        """The function of the evaluator's file that evaluates a program, or nothing."""
        return self.metrics.python if isinstance(self.metrics, PythonMetrics) else ""


class CommandTask(TaskKind):
    """See `TaskKind`."""

    name = "command"
    hides_scorer = False

    def check(self, spec: "TaskSpec") -> None:
        if spec.entry or spec.build or spec.run:
            raise ValueError("a task of kind command has no entry, build or run: its evaluator starts the program")
        if spec.has_folder:
            self._check_folder(spec)
        else:
            self._check_file(spec)
        python = bool(spec.python_function)
        if python and spec.evaluate:
            raise ValueError("evaluate and metrics: {python: …} exclude each other: one of them evaluates a program")
        if not python and not spec.evaluate:
            raise ValueError(
                "evaluate is missing: the command that evaluates a program, as in "
                '[python, evaluate.py, "{program}", "{results}"]'
            )
        for stage in spec.cascade:
            if python and not stage.function:
                raise ValueError(
                    f"stage {stage.name} of the cascade names no function, as in function: evaluate_stage1"
                )
            if not python and (stage.function or not any("{stage}" in word for word in spec.evaluate)):
                raise ValueError(
                    f"stage {stage.name} of the cascade: let a word of evaluate contain {{stage}}, and name no function"
                )

    def _check_file(self, spec: "TaskSpec") -> None:
        spec.refuse_file_fields()
        if spec.language == PYTHON and not spec.program.endswith(".py"):
            raise ValueError(f"{spec.program} is not a Python file: name its language, as in language: shell")
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", spec.program):
            raise ValueError("program must name a file of the task's folder, as in initial.sh")

    def _check_folder(self, spec: "TaskSpec") -> None:
        if spec.files:
            raise ValueError("files and change exclude each other: change says which files a folder's program has")
        if spec.catalogue:
            raise ValueError("a catalogue edits the lines of one file: leave it out where change is given")
        if not is_inside(spec.program):
            raise ValueError("program must name a folder of the task's folder where change is given, as in files")

    def contract(self, spec: "TaskSpec") -> str:
        if spec.has_folder:
            evaluator = " ".join(spec.evaluate) or f"{spec.evaluator}, function {spec.python_function}"
            return f"The program is a folder of files, which an evaluator runs and scores (`{evaluator}`)"
        return f"The program is the file {spec.program}, which an evaluator runs and scores"

    def commands(self, spec: "TaskSpec") -> list[tuple[str, str]]:
        """Its evaluator starts the tools of another language. `python` there is the prefix's Python or the one that
        runs pace, which are there."""
        own = [name for name in spec.evaluate[:1] if name not in PYTHONS]
        return [(name, "evaluates") for name in (*own, *(spec.written_in.tools if spec.language != PYTHON else ()))]

    def evaluator_file(self, spec: "TaskSpec") -> str | None:
        return None if spec.evaluate else spec.evaluator


def is_inside(name: str) -> bool:
    """Whether a name leads to a place below the folder that it is relative to."""
    place = PurePosixPath(name)
    return bool(name) and not place.is_absolute() and ".." not in place.parts and place != PurePosixPath(".")
