"""A task as loaded from its folder, and the parts of task.yaml that are read again while a run goes on."""

from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError

from pace_async.durable import refuse_unless_utf8
from pace_async.errors import UsageError
from pace_async.outside import why_refused
from pace_async.programs.text import join_files, marks
from pace_async.task.files import digest_of, read_text
from pace_async.task.finding import find_task, task_folders
from pace_async.task.several_files import program_at
from pace_async.task.spec import Bounds, TaskSpec
from pace_async.yaml_text import mistake, read_yaml


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

    def scores_as(self, digest: str) -> bool:
        """Whether scores by the task with this digest are scores by this one: the same folder, or an earlier one that
        scored every program alike."""
        return digest == self.digest or digest in self.spec.earlier_digests

    @property
    def reference(self) -> str:
        """The task's argument for a command: its name if that leads to its folder, else the folder."""
        folder = task_folders().get(self.name)
        return self.name if folder is not None and folder.resolve() == self.folder.resolve() else str(self.folder)

    @property
    def suffix(self) -> str:
        """The extension of a program's file. Empty where a program is a folder."""
        return "" if self.spec.has_folder else Path(self.spec.program).suffix

    @property
    def catalogue_path(self) -> Path | None:
        return self.folder / self.spec.catalogue if self.spec.catalogue else None


def load_task(name: str) -> Task:
    """Raises UsageError, in one sentence that names the file and the field."""
    folder = find_task(name).resolve()
    refuse_unless_utf8(folder)
    path = folder / "task.yaml"
    spec = _spec_of(path)
    if spec.has_folder and not (folder / spec.program).is_dir():
        raise UsageError(f"{path}: program names {spec.program!r}, which is not a folder in {folder}.")
    fields = {"program": _as_tuple(spec.program_file), "files": spec.files, "evaluator": _as_tuple(spec.evaluator_file)}
    for field_name, files in {**fields, "catalogue": _as_tuple(spec.catalogue)}.items():
        for file in files:
            if Path(file).is_absolute() or ".." in Path(file).parts or not (folder / file).is_file():
                raise UsageError(f"{path}: {field_name} names {file!r}, which is not in {folder}.")
    for name in spec.path:
        if Path(name).is_absolute() or ".." in Path(name).parts or not (folder / name).is_dir():
            raise UsageError(f"{path}: path names {name!r}, which is not a folder of {folder}.")
    if spec.has_folder:
        program = program_at(folder / spec.program, spec)
        return Task(spec=spec, folder=folder, program=program, digest=digest_of(folder, spec))
    program = read_text(folder / spec.program)
    if spec.files:
        program = join_files({name: read_text(folder / name) for name in (spec.program, *spec.files)})
    try:
        spec.of_kind.parts(program)
    except ValueError:
        start, end = marks(spec.written_in.comment)
        raise UsageError(f"{folder / spec.program}: the program needs exactly one {start} … {end}.") from None
    return Task(spec=spec, folder=folder, program=program, digest=digest_of(folder, spec))


def _spec_of(path: Path) -> TaskSpec:
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        raise UsageError(f"{path} must hold the fields of a task; it is empty or not a mapping.")
    try:
        spec = TaskSpec.model_validate(raw)
    except ValidationError as error:
        first = min(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
        where = ".".join(str(part) for part in first["loc"]) or "task"
        if first["type"] == "extra_forbidden":
            near = get_close_matches(where, TaskSpec.model_fields, n=1)
            raise UsageError(
                f"{path}: unknown field {where!r}" + (f"; did you mean {near[0]!r}?" if near else ".")
            ) from None
        raise UsageError(f"{path}: {mistake(dict(first), 'task')}.") from None
    bounds, stages = (
        [spec.bounds.lower, spec.bounds.upper],
        [[stage.threshold, stage.timeout_s] for stage in spec.cascade],
    )
    for name, value in {**spec.model_dump(), "bounds": bounds, "cascade": stages}.items():
        if reason := why_refused(value):
            raise UsageError(f"{path}: {name} {reason}.")
    return spec


def _as_tuple(name: str | None) -> tuple[str, ...]:
    return (name,) if name else ()


def limited(
    task: Task,
    *,
    timeout_s: float | None = None,
    lower: float | None = None,
    upper: float | None = None,
    program: str | None = None,
    gpus_required: bool | None = None,
) -> Task:
    """The task with other limits, another file of its folder as seed program, or cards that it must or need not have.
    None keeps what it has. The digest stays, because scores do not change. Raises UsageError for bounds in the wrong
    order, and for a file that is no seed program."""
    own, is_known = task.spec.bounds, task.spec.has_bounds
    if not is_known and (lower is None) is not (upper is None):
        raise UsageError(
            f"Task {task.name!r} has no bounds: set both reward.lower and reward.upper, or neither, for the seed "
            "program's score and the target."
        )
    low, high = own.lower if lower is None else lower, own.upper if upper is None else upper
    if not low < high:
        below, above = (
            f"the task's bounds.{side}" if value is None else f"reward.{side}"
            for value, side in ((lower, "lower"), (upper, "upper"))
        )
        raise UsageError(f"{below} ({low}) must be below {above} ({high}).")
    changed: dict[str, object] = {"timeout_s": task.spec.timeout_s if timeout_s is None else timeout_s}
    if gpus_required is not None:
        changed["gpus_required"] = gpus_required
    if is_known or lower is not None:
        changed["bounds"] = Bounds(lower=low, upper=high)
    if program is not None:
        own = task.spec.model_copy(update={"program": program})
        task = replace(task, spec=own, program=_other_program(task, program))
    return replace(task, spec=task.spec.model_copy(update=changed))


def bounds_from(spec: TaskSpec, seed: float) -> Bounds:
    """The bounds of a task that leaves them out: between the seed program's score and the target, as in the paper.
    Raises UsageError if the seed program is there already."""
    assert spec.target is not None
    if spec.fitness.reaches(seed, spec.target):
        raise UsageError(
            f"Task {spec.name!r} has no bounds, and its seed program scores {seed:g}, no worse than the target, "
            f"{spec.target:g}: give bounds in task.yaml, or a target to reach."
        )
    return Bounds(lower=min(seed, spec.target), upper=max(seed, spec.target))


def _other_program(task: Task, name: str) -> str:
    """The text of a file of the folder that may be the seed program."""
    if Path(name).is_absolute() or ".." in Path(name).parts or not (task.folder / name).is_file():
        raise UsageError(f"evaluation.program names {name!r}, which is not in {task.folder}.")
    if task.spec.files or task.spec.has_folder:
        raise UsageError(f"evaluation.program is {name!r}, but the seed program of {task.name} has several files.")
    text = read_text(task.folder / name)
    try:
        task.spec.of_kind.parts(text)
    except ValueError:
        start, end = marks(task.spec.written_in.comment)
        raise UsageError(f"{task.folder / name}: the program needs exactly one {start} … {end}.") from None
    return text


def refuse_if_changed(task: Task) -> None:
    """Raises UsageError if a file of the task's folder has changed since the task was loaded."""
    if digest_of(task.folder, task.spec) != task.digest:
        raise UsageError(
            f"A file of task {task.name!r} has changed while it was evaluated, in {task.folder}: scores would not "
            "compare. Put it back, or start a new run."
        )
