"""The fields of task.yaml. Those that only one kind of task has stand in `kinds`, and those for what an evaluation
needs of the machine in `resources`."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from pace_async.aims import Aim
from pace_async.errors import UsageError
from pace_async.fitness import Direction, Fitness, fitness_of
from pace_async.outside import LONGEST_NAME
from pace_async.programs.languages import PYTHON, Language, language_of
from pace_async.programs.text import FILE_NAME
from pace_async.registry.task_groups import TASK_GROUPS
from pace_async.task.kinds import TASK_KINDS, TaskKind
from pace_async.task.kinds.command import CommandFields
from pace_async.task.kinds.process import ProcessFields
from pace_async.task.objectives import Bounds, Objective, completed, refuse_unless_several
from pace_async.task.resources import ResourceFields
from pace_async.task.several_files import FileFields

Setting = bool | int | float | str
FULL = "full"
"""The `stage` that an evaluator gets when it gives a program its final score."""
PRACTICE = "practice"
"""The stage of an evaluation on practice instances, which are never scored. The evaluator's `score` gets `full`."""


_SETTING = re.compile(r"\{(\w+)\}")
NOT_YET_KNOWN = Bounds(lower=0.0, upper=1.0)
"""In place of bounds that a task leaves out, until a run has scored its seed program."""


class CascadeStage(BaseModel):
    """A cheap evaluation that a program has to pass before a more expensive one."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    name: str = Field(
        pattern=r"^[a-z][a-z0-9_]*$", max_length=LONGEST_NAME, description="What the evaluator is given as `stage`."
    )
    threshold: float = Field(description="The worst score of this stage with which a program goes on.")
    timeout_s: float | None = Field(default=None, gt=0, description="Its own limit, in seconds, where it has one.")
    function: str = Field(
        default="", pattern=r"^([A-Za-z_]\w*)?$", description="The function of a command task's Python evaluator."
    )


class TaskInformation(BaseModel):
    """What models are told in place of a task's own words."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    background: str = ""
    shown_metrics: dict[str, str] = Field(default_factory=dict[str, str])


class TaskSpec(CommandFields, ProcessFields, ResourceFields, FileFields):
    """The fields of task.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    name: str = Field(
        pattern=r"^[a-z][a-z0-9_]*$", max_length=LONGEST_NAME, description="The task's name, as in `pace run NAME`."
    )
    group: str | None = Field(default=None, description=f"What kind of task it is: {TASK_GROUPS.listed()}.")
    background: str = Field(description="What the problem is, for the advisor and the implementer.")
    coding_requirements: str = Field(description="What a program must respect.")
    direction: Direction = Field(description="Whether a higher or a lower score is better.")
    bounds: Bounds = Field(
        default=NOT_YET_KNOWN,
        description="The scores between which progress is measured. Where a target stands they may be left out: they "
        "are the seed program's score and the target then.",
    )
    objectives: tuple[Objective, ...] = Field(
        default=(),
        description="Several metrics that count, instead of a direction and bounds. The score is what they come to.",
    )
    target: float | None = Field(default=None, description="The best score known, where there is one.")
    program: str = Field(
        default="initial.py", description="File of the seed program, or its folder in a task that says change."
    )
    files: tuple[str, ...] = Field(
        default=(), description="Further files of the seed program, modules that its first file may import."
    )
    evaluator: str = Field(default="evaluator.py", description="File of the trusted evaluator.")
    catalogue: str | None = Field(default=None, description="File of the catalogue of mechanisms, if any.")
    kind: str = Field(
        default="function",
        description="Whether a candidate is a Python function, a program that reads and writes JSON lines, or a "
        "program that an evaluator of the user's runs in the same sandbox.",
    )
    entry: str = Field(default="", description="The candidate's function that is called with each instance.")
    language: str = Field(
        default=PYTHON,
        pattern=r"^[a-z][a-z0-9+#_-]*$",
        description="The language of a task's programs: its comments, code blocks and errors.",
    )
    timeout_s: float = Field(gt=0, description="Wall-clock limit of one evaluation, in seconds.")
    memory_mb: int = Field(gt=0, description="Memory limit of one evaluation, in MiB.")
    output_mb: float = Field(default=4.0, gt=0, description="Limit on what a candidate may return or print, in MiB.")
    output_values: int = Field(
        default=2_000_000,
        gt=0,
        description="Limit on the values in what a candidate returns for all instances: numbers, texts, names, lists.",
    )
    deterministic: bool = Field(
        description="Whether equal programs always get equal scores (a memo may spare repeats)."
    )
    settings: dict[str, Setting] = Field(
        default_factory=dict[str, Setting], description="Values for the evaluator; `evaluation.settings` overrides."
    )
    earlier_digests: tuple[str, ...] = Field(
        default=(),
        description="Digests of the folder as it was before changes that alter no program's score: their runs go on.",
    )
    cascade: tuple[CascadeStage, ...] = Field(
        default=(), description="Cheap stages, in order, that a program has to pass before the full evaluation."
    )
    shown_metrics: dict[str, str] = Field(
        default_factory=dict[str, str],
        description="Metrics of a hidden scorer that models are told, with three digits, and what each means; or only "
        "their names, as a list. {layers} stands for the value of the setting layers. Those of a command task are all "
        "told.",
    )
    sizes: str | dict[str, str] = Field(
        default="",
        description="How many instances there are and how large, for models; {layers} stands for the value of the "
        "setting layers. By the value of the setting data, where that chooses the data.",
    )
    told_where: dict[str, dict[str, TaskInformation]] = Field(
        default_factory=dict[str, dict[str, TaskInformation]],
        description="By a setting and its value: a background or shown_metrics that take the place of the task's own "
        "where a run has that value.",
    )
    longest_program: int | None = Field(
        default=None, gt=0, description="Characters that a whole program may have; a longer one is not evaluated."
    )
    offline_settings: dict[str, Setting] = Field(
        default_factory=dict[str, Setting],
        description="Override `settings` in `pace task check`, where the task's own settings need files that the user "
        "has to get.",
    )

    @property
    def fitness(self) -> Fitness:
        """How scores of the task compare."""
        return fitness_of(self.direction, self.bounds.lower, self.bounds.upper, self.aims)

    @property
    def aims(self) -> tuple[Aim, ...]:
        """The objectives as values."""
        return tuple(objective.aim for objective in self.objectives)

    @property
    def has_bounds(self) -> bool:
        """Whether the bounds are given. Otherwise they are known once the seed program has a score."""
        return "bounds" in self.model_fields_set

    @model_validator(mode="before")
    @classmethod
    def _objectives_make_a_score(cls, given: Any) -> Any:
        return completed(cast("Mapping[str, Any]", given)) if isinstance(given, Mapping) else given

    @field_validator("objectives")
    @classmethod
    def _objectives_are_several(cls, objectives: tuple[Objective, ...]) -> tuple[Objective, ...]:
        refuse_unless_several(objectives)
        return objectives

    @model_validator(mode="after")
    def _progress_has_an_end(self) -> "TaskSpec":
        if not self.has_bounds and self.target is None:
            raise ValueError("bounds are missing: give bounds with lower and upper, or a target")
        return self

    @field_validator("kind")
    @classmethod
    def _kind_is_known(cls, kind: str) -> str:
        if kind not in TASK_KINDS:
            raise ValueError(f"{kind!r} is none of {', '.join(TASK_KINDS)}")
        return kind

    @field_validator("group")
    @classmethod
    def _group_is_known(cls, group: str | None) -> str | None:
        return group if group is None else TASK_GROUPS.named(group).name

    @field_validator("shown_metrics", mode="before")
    @classmethod
    def _names_are_enough(cls, shown: Mapping[str, str] | list[str]) -> Mapping[str, str]:
        return dict.fromkeys(shown, "") if isinstance(shown, list) else shown

    @model_validator(mode="after")
    def _kind_has_its_fields(self) -> "TaskSpec":
        self.of_kind.check(self)
        return self

    @model_validator(mode="after")
    def _files_are_modules(self) -> "TaskSpec":
        names = (self.program, *self.files)
        if self.files and (len(set(names)) < len(names) or not all(re.fullmatch(FILE_NAME, name) for name in names)):
            raise ValueError("program and files must be different Python files of the task's folder, as in moves.py")
        return self

    @model_validator(mode="after")
    def _stages_have_names(self) -> "TaskSpec":
        names = [stage.name for stage in self.cascade]
        if {FULL, PRACTICE} & set(names) or len(set(names)) < len(names):
            raise ValueError(
                f"each stage of the cascade needs a name of its own, and {FULL!r} and {PRACTICE!r} are taken"
            )
        return self

    @model_validator(mode="after")
    def _texts_name_settings(self) -> "TaskSpec":
        if unknown := self.told_where.keys() - self.settings.keys():
            raise ValueError(f"told_where names {min(unknown)!r}, which is no setting of the task")
        sizes = self.sizes.values() if isinstance(self.sizes, dict) else (self.sizes,)
        information = (information for by_value in self.told_where.values() for information in by_value.values())
        metrics = (meaning for entry in information for meaning in entry.shown_metrics.values())
        for name, text in [*(("sizes", size) for size in sizes), *(("told_where", meaning) for meaning in metrics)]:
            try:
                text.format_map(self.settings)
            except (KeyError, IndexError, ValueError, AttributeError):
                raise ValueError(f"{name} {text!r} must name settings of the task, as in {{layers}}") from None
        return self

    def under(self, chosen: Mapping[str, Setting]) -> "TaskSpec":
        """The task with the settings chosen for a run, and with what models are told under them. Raises UsageError."""
        settings = settings_of(self, chosen)
        changed: dict[str, object] = {"settings": settings}
        for name, by_value in self.told_where.items():
            information = by_value.get(str(settings[name]), TaskInformation())
            if information.background:
                changed["background"] = information.background
            if information.shown_metrics:
                changed["shown_metrics"] = information.shown_metrics
        return self.model_copy(update=changed)

    @property
    def told_metrics(self) -> dict[str, str]:
        """What the shown metrics mean under the settings, of those that have a meaning."""
        meanings = {name: meaning for name, meaning in self.shown_metrics.items() if meaning}
        return {name: _SETTING.sub(self._value_of, meaning) for name, meaning in meanings.items()}

    def _value_of(self, match: re.Match[str]) -> str:
        return str(self.settings.get(match[1], match[0]))

    @property
    def told_sizes(self) -> str:
        """How large the data are under the settings, without a full stop at its end. Empty if the task does not say."""
        chosen = str(self.settings.get("data", ""))
        text = self.sizes.get(chosen, "") if isinstance(self.sizes, dict) else self.sizes
        return text.format_map(self.settings).strip().rstrip(".")

    @property
    def of_kind(self) -> TaskKind:
        """What a task of its kind does in its own way."""
        return TASK_KINDS[self.kind]

    @property
    def repeats(self) -> bool:
        """Whether one evaluation of a program says as much as two: a command task may say so in error."""
        return self.deterministic and self.of_kind.hides_scorer

    @property
    def program_file(self) -> str | None:
        """The first file of the seed program, None where a program is a folder."""
        return None if self.has_folder else self.program

    @property
    def evaluator_file(self) -> str | None:
        """The file of the evaluator, None where a command evaluates."""
        return self.of_kind.evaluator_file(self)

    @property
    def written_in(self) -> Language:
        """The language of the task's programs."""
        return language_of(self.language)


def settings_of(spec: TaskSpec, chosen: Mapping[str, Setting]) -> dict[str, Setting]:
    """The task's settings with those chosen for a run. Raises UsageError for a setting that the task does not have, or
    a value of another type."""
    for name, value in chosen.items():
        if name not in spec.settings:
            near = get_close_matches(name, spec.settings, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(spec.settings) or 'none'}."
            raise UsageError(f"Task {spec.name!r} has no setting {name!r}: {hint}")
        own = spec.settings[name]
        if type(value) is not type(own) and not (isinstance(own, float) and type(value) is int):
            raise UsageError(f"Setting {name!r} of task {spec.name!r} must be {type(own).__name__}, not {value!r}.")
    return {**spec.settings, **chosen}
