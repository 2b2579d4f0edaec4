"""The task of a run, found again from the run's row: from any directory, and never another task of the same name.

The row holds the task's folder. Where that folder is gone, as after a move of the package or on another machine, the
task is looked up as the user named it, and taken if it is the same one: of the same digest, or of the package in both
places. A row of an earlier version holds no folder. Its task is looked up as the user named it, from this directory.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from pace_async.errors import UsageError
from pace_async.task.finding import BUNDLED, CHECKOUT, find_task
from pace_async.task.loading import Task, load_task


class RecordedTask(Protocol):
    """What a run's row says of its task. `task` is its name, and `config` holds the task as the user named it.
    `task_folder` and `task_suffix` are None in a row of an earlier version."""

    @property
    def task(self) -> str: ...
    @property
    def task_digest(self) -> str: ...
    @property
    def task_folder(self) -> str | None: ...
    @property
    def task_suffix(self) -> str | None: ...
    @property
    def config(self) -> Mapping[str, object]: ...


def task_of_run(run: RecordedTask) -> Task:
    """The task as it is now, perhaps changed since the run began: its digest says so. Raises UsageError if it is
    gone."""
    if run.task_folder is None:
        return _task_of(run)
    folder = Path(run.task_folder)
    if (folder / "task.yaml").is_file():
        task = load_task(run.task_folder)
        if task.name == run.task:
            return task
        raise UsageError(f"{folder} holds the task {task.name!r} now, and the run is of {run.task!r}: put it back.")
    message = f"The run's task {run.task!r} lay in {folder}, and is not there any more: put it back."
    try:
        task = load_task(str(find_task(_reference(run))))
    except UsageError:
        raise UsageError(message) from None
    of_package = folder.parts[-3:-1] == ("_bundled", "tasks") and task.folder.is_relative_to(BUNDLED.resolve())
    if task.digest == run.task_digest or of_package:
        return task
    raise UsageError(message)


def _task_of(run: RecordedTask) -> Task:
    """The task of a row without a folder. Raises UsageError."""
    try:
        task = load_task(_reference(run))
    except UsageError as error:
        raise UsageError(f"{error} The run was begun in another directory, perhaps: go there.") from None
    if task.name != run.task:
        raise UsageError(f"{task.folder} holds the task {task.name!r}, and the run is of {run.task!r}.")
    return task


def _reference(run: RecordedTask) -> str:
    return str(run.config.get("task") or run.task)


def reference_of(run: RecordedTask) -> str:
    """The task's argument for a command that works in any directory: its folder, or its name if it is the package's
    own, or what the user named in a row of an earlier version."""
    if run.task_folder is None:
        return _reference(run)
    own = [(root / "tasks" / run.task).resolve() for root in (BUNDLED, CHECKOUT)]
    return run.task if Path(run.task_folder) in own else run.task_folder


def best_known(run: RecordedTask) -> float | None:
    """The best known score, read from the task's folder now. None where there is none, or the task is gone."""
    try:
        return task_of_run(run).spec.target
    except UsageError:
        return None


def suffix_of_programs(run: RecordedTask) -> str:
    """The file name extension of a run's programs: the recorded one, that of the task in a row of an earlier version,
    Python's if that task is gone."""
    if run.task_suffix is not None:
        return run.task_suffix
    try:
        return task_of_run(run).suffix
    except UsageError:
        return ".py"
