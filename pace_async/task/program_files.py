"""The text of a program of a task, from files."""

from pathlib import Path

from pace_async.errors import UsageError
from pace_async.programs.reading import text_of
from pace_async.programs.text import join_files, parted
from pace_async.task.several_files import program_at
from pace_async.task.spec import TaskSpec


def program_text(file: Path, spec: TaskSpec) -> str:
    """The text of a program. If the task has several files and the text names none, the files beside it are added.
    Of a task whose program is a folder, that of a folder. Raises UsageError."""
    if spec.has_folder:
        if not file.is_dir():
            raise UsageError(f"{file} is no folder, and a program of task {spec.name!r} is a folder of files.")
        return program_at(file, spec)
    program = text_of(file)
    beside = {name: file.with_name(name) for name in spec.files if file.with_name(name).exists()}
    if not beside or parted(program)[0][0]:
        return program
    return join_files({spec.program: program, **{name: text_of(path) for name, path in beside.items()}})
