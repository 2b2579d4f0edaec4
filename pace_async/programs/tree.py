"""Reads the text files below a folder that another program has written, without leaving it.

Invariant: every file and folder is opened relative to the open folder that holds its name, and no link is followed, so
nothing from outside is read, even if names are exchanged at the same time. What is read is a plain file with one name,
and at most MOST_BYTES of it. A name that begins with a dot is passed over, and so is what Python compiles.
"""

import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from pace_async.errors import CandidateFault
from pace_async.outside import sound_file
from pace_async.programs.compiled import LONGEST_PROGRAM
from pace_async.programs.fileset import LONGEST_SET
from pace_async.programs.paths import DEEPEST, MOST_FILES, shown_path, why_refused

MOST_BYTES = 4 * LONGEST_PROGRAM
"""Of one file: UTF-8 has at most four bytes a character."""
MOST_ENTRIES = 10 * MOST_FILES
"""Names that are looked at."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def read_tree(folder: str, is_wanted: Callable[[str], bool]) -> dict[str, str]:
    """The texts of the files below a folder, by their paths. `is_wanted` says of a path whether its file is read.
    Raises CandidateFault, which names the path, for what is no plain file or no text, for a name that a program may not
    have, and for too much of anything."""
    with opened_folder(folder) as root:
        texts, characters = dict[str, str](), 0
        for path, name, parent in _walk(root, is_wanted):
            if reason := why_refused(path):
                raise CandidateFault("bad_path", reason)
            texts[path] = file_text(name, parent, shown_path(path))
            characters += len(texts[path])
            if len(texts) > MOST_FILES or characters > LONGEST_SET:
                too_many = len(texts) > MOST_FILES
                excess = f"more than {MOST_FILES} files" if too_many else f"over {LONGEST_SET:,} characters"
                raise CandidateFault("program_too_long", f"the program's folder has {excess}")
        return texts


def names_below(folder: str) -> list[str]:
    """The paths below a folder, as `read_tree` walks it, without reading a file. Raises CandidateFault."""
    with opened_folder(folder) as root:
        return [path for path, _, _ in _walk(root, lambda _: True)]


@contextmanager
def opened_folder(folder: str | Path) -> Generator[int]:
    """A descriptor of the folder of a program. Raises CandidateFault if it is gone, or a link."""
    try:
        root = os.open(folder, _FOLDER)
    except OSError:
        raise CandidateFault("empty_answer", "the folder of the program is gone") from None
    try:
        yield root
    finally:
        os.close(root)


def _walk(root: int, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, str, int]]:
    """(path, name, the open folder that holds it) of each wanted file."""
    count = 0

    def below(folder: int, prefix: str, depth: int) -> Iterator[tuple[str, str, int]]:
        nonlocal count
        for name in _names(folder):
            count += 1
            if count > MOST_ENTRIES:
                raise CandidateFault("program_too_long", f"the program's folder has more than {MOST_ENTRIES} names")
            if name.startswith(".") or name == "__pycache__" or name.endswith(".pyc"):
                continue
            path = prefix + name
            try:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError:  # gone since it was listed
                continue
            if not stat.S_ISDIR(status.st_mode):
                if is_wanted(path):
                    yield path, name, folder
                continue
            if depth >= DEEPEST:
                raise CandidateFault("program_too_long", f"{shown_path(path)} is deeper than {DEEPEST} folders")
            try:
                inner = os.open(name, _FOLDER, dir_fd=folder)
            except OSError as error:
                raise CandidateFault("bad_path", f"{shown_path(path)} cannot be read: {error.strerror}") from None
            try:
                yield from below(inner, f"{path}/", depth + 1)
            finally:
                os.close(inner)

    return below(root, "", 1)


def _names(folder: int) -> list[str]:
    """The names in an open folder, in order, and one more than may be looked at if there are more."""
    names: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            names.append(entry.name)
            if len(names) > MOST_ENTRIES:
                break
    return sorted(names)


def file_text(name: str, folder: int, label: str, kind: str = "bad_path") -> str:
    """The text of the plain file of this name in an open folder, which faults call `label`. Raises CandidateFault, of
    this kind for what is no plain file."""
    try:
        descriptor = os.open(name, _FILE, dir_fd=folder)
    except OSError:
        raise CandidateFault(kind, f"{label} is {_kind(name, folder)}, which is not read") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        description = _KINDS.get(stat.S_IFMT(status.st_mode), "a device")
        description = "a second name of another file" if stat.S_ISREG(status.st_mode) else description
        raise CandidateFault(kind, f"{label} is {description}, which is not read")
    with os.fdopen(descriptor, "rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        detail = f"{label} has {status.st_size} bytes; a file may have {LONGEST_PROGRAM} characters"
        raise CandidateFault("program_too_long", detail)
    try:
        return sound_file(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise CandidateFault("not_text", f"{label} is not UTF-8 text") from None


def _kind(name: str, folder: int) -> str:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return "gone"
    known = "a file that cannot be read" if stat.S_ISREG(status.st_mode) else "a device"
    return _KINDS.get(stat.S_IFMT(status.st_mode), known)
