"""The files of a task's folder that count, and the digest of all of them."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pace_async.errors import UsageError
from pace_async.outside import sound_file

if TYPE_CHECKING:
    from pace_async.task.spec import TaskSpec

CHEATS = "cheats"
"""The folder of a task with programs that must not score; `pace task check` tries them, and no run reads them."""
_GROUP_LINE = re.compile(rb"^group:[^\n]*\n?", re.MULTILINE)


def digest_of(folder: Path, spec: "TaskSpec") -> str:
    """32 hex digits over the names and contents of every file of a task's folder, because an evaluator may read any of
    them. Links are followed. Left out are names that begin with a dot, compiled Python, the folders of runs, programs
    that must not score, and the group, which changes no score. Raises UsageError for a file that cannot be read."""
    spec_files = {name for name in (spec.program_file, spec.evaluator_file, spec.catalogue) if name}
    digest = hashlib.sha256()
    for name in sorted({*spec_files, *files_of(folder)}):
        try:
            with (folder / name).open("rb") as stream:
                if name == "task.yaml":
                    content = hashlib.sha256(_GROUP_LINE.sub(b"", stream.read())).hexdigest()
                else:
                    content = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise unreadable(folder / name, error) from None
        digest.update(f"{name}\0{content}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def files_of(folder: Path) -> list[str]:
    """The files of a task's folder that count: those of its digest, relative to the folder. Raises UsageError."""
    return [name for name in every_file(folder) if name.partition("/")[0] != CHEATS]


def every_file(folder: Path) -> list[str]:
    """The files below a folder that may be read, relative to it. Raises UsageError."""
    return sorted(path.relative_to(folder).as_posix() for path in _files(folder, frozenset()))


def _files(folder: Path, above: frozenset[Path]) -> Iterator[Path]:
    """The files of a folder that may be read. `above` are the resolved folders on the way to it, which stop loops."""
    here = folder.resolve()
    if here in above or (folder / "population.db").exists():
        return
    try:
        paths = list(folder.iterdir())
    except OSError as error:
        raise unreadable(folder, error) from None
    for path in paths:
        if path.name.startswith(".") or path.name == "__pycache__" or path.suffix == ".pyc":
            continue
        if path.is_dir():
            yield from _files(path, above | {here})
        elif path.is_file():
            yield path


def unreadable(path: Path, error: OSError) -> UsageError:
    """The error of a file that cannot be read."""
    return UsageError(f"Cannot read {path}: {error.strerror}; every file of a task's folder counts.")


def read_text(path: Path) -> str:
    """Raises UsageError for a file that cannot be read, or is not UTF-8 text. A byte order mark is left out."""
    try:
        return sound_file(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise unreadable(path, error) from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text.") from None
