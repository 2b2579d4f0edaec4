"""Programs given as a file or as text."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

from pace_async.errors import UsageError
from pace_async.outside import sound_file

if TYPE_CHECKING:
    from pace_async.task import TaskSpec

MOST_MB = 64
"""A larger file is not read into memory. Programs of more than 262,144 characters have an outcome of their own."""


def given_text(program: str | Path) -> str | None:
    """The program itself where it is given as text, None where it is the name of a file. A text has several lines."""
    return program if isinstance(program, str) and "\n" in program else None


def text_of(file: Path) -> str:
    """The text of a file. Raises UsageError."""
    try:
        with file.open("rb") as stream:
            content = stream.read((MOST_MB << 20) + 1)
        if len(content) > MOST_MB << 20:
            raise UsageError(f"{file} has more than {MOST_MB} MiB, so it is no program.")
        text = sound_file(content.decode("utf-8"))
        return io.StringIO(text, newline=None).read()  # with ends of lines as open() reads them
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"Cannot read {file}: {why}.") from None


def program_text(file: Path, spec: "TaskSpec") -> str:
    """The text of a program. If the task has several files and the text names none, the files beside it are added.
    Of a task whose program is a folder, that of a folder. Raises UsageError."""
    from pace_async.programs.text import joined, parted
    from pace_async.task.several_files import program_at

    if spec.has_folder:
        if not file.is_dir():
            raise UsageError(f"{file} is no folder, and a program of task {spec.name!r} is a folder of files.")
        return program_at(file, spec)
    program = text_of(file)
    beside = {name: file.with_name(name) for name in spec.files if file.with_name(name).exists()}
    if not beside or parted(program)[0][0]:
        return program
    return joined({spec.program: program, **{name: text_of(path) for name, path in beside.items()}})
