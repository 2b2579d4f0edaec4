"""The fields of task.yaml, and a task as loaded from its folder."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pace_async.errors import UsageError
from pace_async.programs.languages import PYTHON, Language, language_of
from pace_async.programs.text import BLOCK_END as BLOCK_END
from pace_async.programs.text import BLOCK_START as BLOCK_START
from pace_async.programs.text import FILE_NAME, joined, marks
from pace_async.programs.text import editable as editable
from pace_async.programs.text import split_block as split_block
from pace_async.registry.task_groups import TASK_GROUPS
from pace_async.task.command import HIDDEN_SCORER, SHARED_TRUST, CommandFields

Setting = bool | int | float | str
FULL = "full"
"""What an evaluator is given as `stage` where it is to score a program for good."""
BUNDLED = Path(__file__).parents[1] / "_bundled"
CHECKOUT = Path(__file__).parents[2]


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


class CascadeStage(BaseModel):
    """A cheap evaluation that a program has to pass before a more expensive one."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="What the evaluator is given as `stage`.")
    threshold: float = Field(description="The worst score of this stage with which a program goes on.")
    timeout_s: float | None = Field(default=None, gt=0, description="Its own limit, in seconds, where it has one.")
    function: str = Field(
        default="", pattern=r"^([A-Za-z_]\w*)?$", description="The function of a command task's Python evaluator."
    )


class TaskSpec(CommandFields):
    """The fields of task.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="The task's name, as in `pace run NAME`.")
    group: str | None = Field(default=None, description=f"What kind of task it is: {TASK_GROUPS.listed()}.")
    background: str = Field(description="What the problem is, for the advisor and the implementer.")
    coding_requirements: str = Field(description="What a program must respect.")
    direction: Literal["maximize", "minimize"] = Field(description="Whether a higher or a lower score is better.")
    bounds: Bounds = Field(description="The scores between which progress is measured.")
    target: float | None = Field(default=None, description="The best score known, where there is one.")
    program: str = Field(default="initial.py", description="File of the seed program.")
    files: tuple[str, ...] = Field(
        default=(), description="Further files of the seed program, modules that its first file may import."
    )
    evaluator: str = Field(default="evaluator.py", description="File of the trusted evaluator.")
    catalogue: str | None = Field(default=None, description="File of the catalogue of mechanisms, if any.")
    kind: Literal["function", "process", "command"] = Field(
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
    build: tuple[str, ...] = Field(
        default=(), description="The command of a process task that makes something to run of a program, if any."
    )
    run: tuple[str, ...] = Field(default=(), description="The command of a process task that starts a built program.")
    build_timeout_s: float = Field(default=60.0, gt=0, description="Wall-clock limit of one build, in seconds.")
    build_memory_mb: int = Field(default=2048, gt=0, description="Memory limit of one build, in MiB.")
    build_mb: float = Field(default=32.0, gt=0, description="Limit on what a build leaves, in MiB.")
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
    cascade: tuple[CascadeStage, ...] = Field(
        default=(), description="Cheap stages, in order, that a program has to pass before the full evaluation."
    )
    offline_settings: dict[str, Setting] = Field(
        default_factory=dict[str, Setting],
        description="Over `settings` in `pace task check`, where the task's own need files that the user has to get.",
    )

    @field_validator("group")
    @classmethod
    def _group_is_known(cls, group: str | None) -> str | None:
        return group if group is None else TASK_GROUPS.named(group).name

    @model_validator(mode="after")
    def _kind_has_its_fields(self) -> "TaskSpec":
        if self.is_command:
            if self.entry or self.build or self.run:
                raise ValueError("a task of kind command has no entry, build or run: its evaluator starts the program")
            if self.language == PYTHON and not self.program.endswith(".py"):
                raise ValueError(f"{self.program} is no Python file: name its language, as in language: shell")
            self.check_command(self.program, [(stage.name, stage.function) for stage in self.cascade])
            return self
        self.refuse_command_fields()
        if any(stage.function for stage in self.cascade):
            raise ValueError("a stage of the cascade has a function only in tasks that say kind: command")
        if self.kind == "function":
            if not self.entry:
                raise ValueError("entry is missing: it names the function that is called with each instance")
            if self.build or self.run or self.language != PYTHON:
                raise ValueError("build, run and another language are for tasks that say kind: process")
            return self
        if not self.run:
            raise ValueError("run is missing: it is the command that starts a program, as in [./program]")
        if self.entry or self.files:
            raise ValueError("a task of kind process has one file and no entry: leave files and entry out")
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", self.program):
            raise ValueError("program must name a file of the task's folder, as in initial.cpp")
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
        if FULL in names or len(set(names)) < len(names):
            raise ValueError(f"each stage of the cascade needs a name of its own, and {FULL!r} is taken")
        return self

    @property
    def is_process(self) -> bool:
        """Whether a candidate is a program of its own, which commands build and start."""
        return self.kind == "process"

    @property
    def is_command(self) -> bool:
        """Whether the task's evaluator runs in the candidate's sandbox."""
        return self.kind == "command"

    @property
    def trust(self) -> str:
        """Whether programs can reach what scores them, as in the run's row."""
        return SHARED_TRUST if self.is_command else HIDDEN_SCORER

    @property
    def has_entry(self) -> bool:
        """Whether a candidate is a Python function."""
        return self.kind == "function"

    @property
    def evaluator_file(self) -> str | None:
        """The file of the evaluator, None where a command evaluates."""
        return None if self.is_command and self.evaluate else self.evaluator

    @property
    def written_in(self) -> Language:
        """The language of the task's programs."""
        return language_of(self.language)


@dataclass(frozen=True, slots=True)
class Task:
    """A task as loaded. `program` is one text, also where it has several files (see `programs.text`). `digest` changes
    when anything that can change a score changes."""

    spec: TaskSpec
    folder: Path
    program: str
    digest: str

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def reference(self) -> str:
        """The task's argument for a command: its name if that leads to its folder, else the folder."""
        named = task_folders().get(self.name)
        return self.name if named is not None and named.resolve() == self.folder.resolve() else str(self.folder)

    @property
    def catalogue_path(self) -> Path | None:
        return self.folder / self.spec.catalogue if self.spec.catalogue else None


def limited(
    task: Task, *, timeout_s: float | None = None, lower: float | None = None, upper: float | None = None
) -> Task:
    """The task with other limits. None keeps a limit. The digest stays, because scores do not change. Raises UsageError
    for bounds in the wrong order."""
    own = task.spec.bounds
    low, high = own.lower if lower is None else lower, own.upper if upper is None else upper
    if not low < high:
        below, above = (
            f"the task's bounds.{side}" if given is None else f"reward.{side}"
            for given, side in ((lower, "lower"), (upper, "upper"))
        )
        raise UsageError(f"{below} ({low}) must be below {above} ({high}).")
    bounds = Bounds(lower=low, upper=high)
    changed = {"bounds": bounds, "timeout_s": task.spec.timeout_s if timeout_s is None else timeout_s}
    return replace(task, spec=task.spec.model_copy(update=changed))


def refuse_if_changed(task: Task) -> None:
    """Raises UsageError if a file of the task's folder has changed since the task was loaded."""
    if _digest(task.folder, task.spec) != task.digest:
        raise UsageError(
            f"A file of task {task.name!r} has changed while it was evaluated, in {task.folder}: scores would not "
            "compare. Put it back, or start a new run."
        )


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


def task_folders() -> dict[str, Path]:
    """Every task that can be named: those under ./tasks first, then the bundled ones."""
    found: dict[str, Path] = {}
    for root in (Path("tasks"), CHECKOUT / "tasks", BUNDLED / "tasks"):
        if root.is_dir():
            for spec in sorted(root.glob("*/task.yaml")):
                found.setdefault(spec.parent.name, spec.parent)
    return found


def find_task(name: str) -> Path:
    """The folder of a task named by path, or by name under ./tasks, or among the bundled."""
    if (Path(name) / "task.yaml").is_file():
        return Path(name)
    folders = task_folders()
    if name in folders:
        return folders[name]
    if Path(name).is_dir():
        raise UsageError(f"{name} is a folder without task.yaml, so it is no task: `pace task init` makes one.")
    near = get_close_matches(name, folders, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "`pace task list` shows those there are."
    raise UsageError(f"There is no task {name!r}: {hint}")


def load_task(name: str) -> Task:
    """Raises UsageError, in one sentence that names the file and the field."""
    folder = find_task(name).resolve()
    path = folder / "task.yaml"
    spec = _load_spec(path)
    named = {"program": (spec.program,), "files": spec.files, "evaluator": _given(spec.evaluator_file)}
    for field_name, files in {**named, "catalogue": _given(spec.catalogue)}.items():
        for file in files:
            if not (folder / file).is_file():
                raise UsageError(f"{path}: {field_name} names {file!r}, which is not in {folder}.")
    for name in spec.path:
        if not (folder / name).is_dir():
            raise UsageError(f"{path}: path names {name!r}, which is no folder of {folder}.")
    program = _text(folder / spec.program)
    if spec.files:
        program = joined({name: _text(folder / name) for name in (spec.program, *spec.files)})
    try:
        (split_block if spec.has_entry else editable)(program)
    except ValueError:
        start, end = marks(spec.written_in.comment)
        raise UsageError(f"{folder / spec.program}: the program needs exactly one {start} … {end}.") from None
    return Task(spec=spec, folder=folder, program=program, digest=_digest(folder, spec))


def _given(name: str | None) -> tuple[str, ...]:
    return (name,) if name else ()


def best_known(name: str) -> float | None:
    """The best known score, read from the task's folder now. None where there is none, or the task is gone."""
    try:
        return _load_spec(find_task(name) / "task.yaml").target
    except UsageError:
        return None


def suffix_of_programs(name: str) -> str:
    """The file name extension of a task's programs, read from the task's folder now, Python's if the folder is gone."""
    try:
        return Path(_load_spec(find_task(name) / "task.yaml").program).suffix
    except UsageError:
        return ".py"


CHEATS = "cheats"
"""The folder of a task with programs that must not score; `pace task check` tries them, and no run reads them."""


_GROUP_LINE = re.compile(rb"^group:[^\n]*\n?", re.MULTILINE)


def _digest(folder: Path, spec: TaskSpec) -> str:
    """32 hex digits over the names and contents of every file of a task's folder, because an evaluator may read any of
    them. Links are followed. Left out are names that begin with a dot, compiled Python, the folders of runs, programs
    that must not score, and the group, which changes no score. Raises UsageError for a file that cannot be read."""
    named = {spec.program, *_given(spec.evaluator_file), *_given(spec.catalogue)}
    digest = hashlib.sha256()
    for name in sorted({*named, *files_of(folder)}):
        try:
            with (folder / name).open("rb") as stream:
                if name == "task.yaml":
                    content = hashlib.sha256(_GROUP_LINE.sub(b"", stream.read())).hexdigest()
                else:
                    content = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise _unreadable(folder / name, error) from None
        digest.update(f"{name}\0{content}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def files_of(folder: Path) -> list[str]:
    """The files of a task's folder that count: those of its digest, relative to the folder. Raises UsageError."""
    found = (path.relative_to(folder) for path in _files(folder, frozenset()))
    return sorted(path.as_posix() for path in found if path.parts[0] != CHEATS)


def _files(folder: Path, above: frozenset[Path]) -> Iterator[Path]:
    """The files of a folder that may be read. `above` are the resolved folders on the way to it, which stop loops."""
    here = folder.resolve()
    if here in above or (folder / "population.db").exists():
        return
    try:
        found = list(folder.iterdir())
    except OSError as error:
        raise _unreadable(folder, error) from None
    for path in found:
        if path.name.startswith(".") or path.name == "__pycache__" or path.suffix == ".pyc":
            continue
        if path.is_dir():
            yield from _files(path, above | {here})
        elif path.is_file():
            yield path


def _unreadable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"Cannot read {path}: {error.strerror}; every file of a task's folder counts.")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise _unreadable(path, error) from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text.") from None


def _load_spec(path: Path) -> TaskSpec:
    try:
        raw: Any = yaml.safe_load(_text(path))
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is not valid YAML: {str(error).splitlines()[0]}.") from None
    if not isinstance(raw, dict):
        raise UsageError(f"{path} must hold the fields of a task; it is empty or not a mapping.")
    try:
        return TaskSpec.model_validate(raw)
    except ValidationError as error:
        first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
        where = ".".join(str(part) for part in first["loc"]) or "task"
        if first["type"] == "extra_forbidden":
            near = get_close_matches(where, TaskSpec.model_fields, n=1)
            raise UsageError(
                f"{path}: unknown field {where!r}" + (f"; did you mean {near[0]!r}?" if near else ".")
            ) from None
        raise UsageError(f"{path}: {where}: {first['msg'].removeprefix('Value error, ')}.") from None
