"""Names of a program's files, and the globs of a task that choose among them. Pure.

A name is a path with `/` below the program's folder, as Git writes it. Invariant: a name for which `why_refused` is
empty leads to a place below any folder that it is joined to, on every file system that pace runs on, if no link stands
on the way.

    *       any characters of one name        ?    one of them
    **      any number of folders             !    at the beginning of a glob: not what the rest of it matches

A glob that names a folder stands for every file below it. Of several globs the last that matches a file counts.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

LONGEST_NAME = 255
"""Bytes of one part of a path, as file systems take them."""
LONGEST_PATH = 1024
"""Bytes of a path."""
DEEPEST = 32
MOST_FILES = 2000
"""Files of a program."""
_GIT = re.compile(r"\.git|git~\d+", re.IGNORECASE)


def why_refused(path: str) -> str:
    """Why a program may have no file of this name, empty if it may. Names the path."""
    label = shown_path(path)
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return f"{label} is not a name in UTF-8"
    if not path or size > LONGEST_PATH:
        return "a file has no name" if not path else f"{label} has more than {LONGEST_PATH} bytes"
    if not path.isprintable() or "\\" in path:
        return f"{label} has a backslash or a character that cannot be printed"
    if path.startswith("/") or re.match(r"[A-Za-z]:", path):
        return f"{label} is an absolute path; a path begins below the program's folder"
    parts = path.split("/")
    if ".." in parts:
        return f"{label} leaves the program's folder"
    if "" in parts or "." in parts or path != path.strip():
        return f"{label} is not a plain path, as in src/moves.py"
    if any(len(part.encode()) > LONGEST_NAME for part in parts) or len(parts) > DEEPEST:
        return f"{label} has a name that is too long, or too many folders"
    if any(part.startswith(".") and not _GIT.fullmatch(_folded(part).rstrip(". ")) for part in parts):
        return f"{label} has a name that begins with a dot, and such files are no part of a program"
    if any(_GIT.fullmatch(_folded(part).rstrip(". ")) for part in parts):
        return f"{label} belongs to Git, and is never part of a program"
    return ""


def why_not_together(paths: Iterable[str], most: int = MOST_FILES) -> str:
    """Why these files cannot stand in one folder on every file system, empty if they can: more than `most`, two names
    that differ only in case or in how Unicode writes them, or a file in the place of a folder."""
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        folded = _folded(path)
        if folded in files:
            return (
                f"{shown_path(files[folded])} and {shown_path(path)} differ only in case or in how Unicode writes them"
            )
        files[folded] = path
        if len(files) > most:
            return f"there are more than {most} files"
        parts = folded.split("/")
        for end in range(1, len(parts)):
            folder, spelling = "/".join(parts[:end]), "/".join(path.split("/")[:end])
            if folders.setdefault(folder, spelling) != spelling:
                twin = folders[folder]
                both = f"{shown_path(twin)} and {shown_path(spelling)}"
                return f"the folders {both} differ only in case or in how Unicode writes them"
    double = next((path for folded, path in files.items() if folded in folders), None)
    return "" if double is None else f"{shown_path(double)} is a file and a folder"


def shown_path(path: str) -> str:
    """A path as it stands in a sentence: quoted, and cut where it is long."""
    return repr(path if len(path) <= 120 else f"{path[:119]}…")


def is_chosen_by(path: str, globs: Sequence[str]) -> bool:
    """Whether the globs choose a path: the last one that matches it decides."""
    for glob in reversed(globs):
        if _pattern(glob.removeprefix("!")).fullmatch(path) is not None:
            return not glob.startswith("!")
    return False


def why_no_glob(glob: str) -> str:
    """Why a text is no glob, empty if it is one."""
    plain = glob.removeprefix("!").rstrip("/")
    if not plain:
        return f"{glob!r} matches nothing"
    if plain.startswith("/") or "\\" in plain or ".." in plain.split("/"):
        return f"{glob!r} must stay below the program's folder, as in src/**/*.py"
    return ""


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    parts: list[str] = []
    names = [name for name in glob.split("/") if name]
    for place, name in enumerate(names):
        last = place == len(names) - 1
        if name == "**":
            parts.append(".*" if last else "(?:[^/]+/)*")
        else:
            parts.append(_name(name) + ("(?:/.*)?" if last else "/"))
    return re.compile("".join(parts), re.DOTALL)


def _name(glob: str) -> str:
    known = {"*": "[^/]*", "?": "[^/]"}
    return "".join(known.get(character, re.escape(character)) for character in re.sub(r"\*+", "*", glob))


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", path).casefold())
