"""The fields of a task whose program is a folder of files, and the program that such a folder holds.

The program is what models are shown: every text file below the folder that `show` or `change` chooses and `hide` does
not. What else lies there, such as data and hidden tests, belongs to the task: it is beside the program when it is
evaluated, and no model sees it.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

from pace_async.errors import UsageError
from pace_async.outside import is_sound
from pace_async.programs.compiled import LONGEST_PROGRAM
from pace_async.programs.fileset import NotAProgram, Program, changed_paths, is_fileset
from pace_async.programs.paths import is_chosen_by, shown_path, why_no_glob, why_refused
from pace_async.task.files import every_file, unreadable


class FileFields(BaseModel):
    """What only a task of several files has. With `change`, `program` names a folder."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    change: tuple[str, ...] = Field(
        default=(),
        description="Globs of the files that may change, below the folder that program names. The last that matches a "
        "file counts, and ! at its beginning takes files out. A program is one file where it is left out.",
    )
    show: tuple[str, ...] = Field(
        default=("**",), description="Globs of the files that models are shown besides those that may change."
    )
    hide: tuple[str, ...] = Field(
        default=(), description="Globs of the files that models never see and that never change, such as hidden tests."
    )
    ignore: tuple[str, ...] = Field(
        default=(),
        description="Lines as in .gitignore: what an agent may leave beside the program, and is not taken.",
    )
    revision: str = Field(
        default="",
        pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})?$",
        description="The commit of a Git repository that the files were taken from.",
    )
    repository: str = Field(default="", description="The folder of that repository.")

    @field_validator("change", "show", "hide")
    @classmethod
    def _are_globs(cls, globs: tuple[str, ...]) -> tuple[str, ...]:
        if reason := next((reason for glob in globs if (reason := why_no_glob(glob))), ""):
            raise ValueError(reason)
        return globs

    @property
    def has_folder(self) -> bool:
        """Whether a program is a set of files."""
        return bool(self.change)

    def may_change(self, path: str) -> bool:
        """Whether a program may have another file of this path than its parent, or a new one, or none."""
        return is_chosen_by(path, self.change) and not is_chosen_by(path, self.hide)

    def is_shown(self, path: str) -> bool:
        """Whether a file of this path is part of the program."""
        return not is_chosen_by(path, self.hide) and (is_chosen_by(path, self.change) or is_chosen_by(path, self.show))

    def refuse_file_fields(self) -> None:
        """Raises ValueError if a field that only a task of several files has is given."""
        fields = FileFields.model_fields.items()
        names = [name for name, field in fields if getattr(self, name) != field.default]
        if names:
            raise ValueError(f"{', '.join(names)}: only for tasks that say kind: command and change")


def why_no_program(program: str, seed: str, fields: FileFields) -> str:
    """Why a text is no program of the task with this seed program, empty if it is one: it is no set of files, or
    differs from the seed program in a file that may not change."""
    if not is_fileset(program):
        return "a program of this task is a folder of files"
    try:
        changed = changed_paths(Program.of(seed), Program.of(program))
    except NotAProgram as error:
        return str(error)
    return next((f"{shown_path(path)} may not change" for path in changed if not fields.may_change(path)), "")


def program_at(root: Path, fields: FileFields) -> str:
    """The text of the program in a folder. Raises UsageError for a link, a name that a program may not have, no file
    that may change, and more text than a program may have."""
    files: dict[str, str] = {}
    for path in filter(fields.is_shown, every_file(root)):
        if any(place.is_symlink() for place in (root / path, *(root / path).parents) if place.is_relative_to(root)):
            raise UsageError(f"{root}: {shown_path(path)} is a link: hide it, or put a copy in its place.")
        if reason := why_refused(path):
            raise UsageError(f"{root}: {reason}: hide it, or give it another name.")
        if (text := _text(root / path)) is not None:
            files[path] = text
    if not any(map(fields.may_change, files)):
        raise UsageError(f"{root} has no text file that change matches ({', '.join(fields.change)}).")
    try:
        return Program.of_files(files).text
    except NotAProgram as reason:
        raise UsageError(f"{root}: {reason}: choose fewer files by show, or hide some.") from None


def _text(path: Path) -> str | None:
    """The text of a file. None for one that is no text, or longer than a program's file may be."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if is_sound(text) and len(text) <= LONGEST_PROGRAM else None
