"""Shinka examples whose candidates are folders: which one file of the repository a candidate changes.

A program of pace is one file. The other files of the repository stay as they are. Which files may change is read as
ShinkaEvolve does: those below `mutable_paths`, without those below `immutable_paths` and `ignore_paths`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, cast

from pace_async.errors import UsageError
from pace_async.peers.example import NO_PROGRAMS

SEED = "seed_repo_path"
SETTINGS = (SEED, "mutable_paths", "immutable_paths", "ignore_paths")
MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Place:
    """`file` lies in the folder `repository` of the example, and candidates take its place."""

    repository: str
    file: str

    @property
    def source(self) -> str:
        """The file, relative to the example."""
        return f"{self.repository}/{self.file}"


def place_of(folder: Path, evo: Mapping[str, Any], wanted: str) -> Place | None:
    """None if the example has no repository. Raises UsageError if it is not there, and if several files may change and
    none of them is wanted."""
    named = evo.get(SEED)
    if not isinstance(named, str) or not named:
        return None
    repository = next((one for one in (named, PurePosixPath(named).name) if (folder / one).is_dir()), None)
    if repository is None or not (folder / repository).resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{folder} has no folder {named!r}, which its settings name as {SEED}.")
    mutable = _paths(evo.get("mutable_paths")) or ["."]
    left_out = [*_paths(evo.get("immutable_paths")), *_paths(evo.get("ignore_paths"))]
    files = sorted(set(_files(folder / repository, mutable, left_out)))
    if wanted:
        chosen = wanted.removeprefix(f"{repository}/")
        if chosen not in files:
            raise UsageError(f"{wanted!r} is not a file of {folder / repository} that may change: {_some(files)}.")
        return Place(repository, chosen)
    if len(files) == 1:
        return Place(repository, files[0])
    if not files:
        raise UsageError(f"No file of {folder / repository} may change: see mutable_paths in the example's settings.")
    raise UsageError(
        f"Several files of {folder / repository} may change ({_some(files)}), and a program of pace is one file: name "
        f"it with --program, as in --program {files[0]}."
    )


def _files(repository: Path, mutable: Sequence[str], left_out: Sequence[str]) -> Iterator[str]:
    for name in mutable:
        start = repository / name
        for path in sorted(start.rglob("*")) if start.is_dir() else [start]:
            inside = path.is_file() and path.resolve().is_relative_to(repository.resolve())
            if not inside or path.suffix.lower() in NO_PROGRAMS:
                continue
            one = path.relative_to(repository).as_posix()
            hidden = any(part.startswith(".") or part == "__pycache__" for part in PurePosixPath(one).parts)
            if not hidden and not any(_below(one, pattern) for pattern in left_out):
                yield one


def _below(name: str, pattern: str) -> bool:
    return fnmatch(name, pattern) or fnmatch(PurePosixPath(name).name, pattern) or name.startswith(f"{pattern}/")


def _paths(value: Any) -> list[str]:
    given = (
        [str(one).strip("/").removeprefix("./") for one in cast("list[Any]", value)] if isinstance(value, list) else []
    )
    return [one for one in given if one and ".." not in PurePosixPath(one).parts]


def _some(files: Sequence[str]) -> str:
    more = ", …" if len(files) > MOST_NAMED else ""
    return f"{', '.join(files[:MOST_NAMED])}{more}"
