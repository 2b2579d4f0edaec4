"""Shinka examples whose candidates are folders: which files of the repository a candidate changes.

Where one file may change, or one is wanted, it is the program, and the others stay as they are. Otherwise the program
is the folder. Which files may change is read as ShinkaEvolve does: those below `mutable_paths`, without those below
`immutable_paths` and `ignore_paths`. Models are shown nothing of the latter.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    """`file` lies in the folder `repository` of the example, and candidates take its place. With `fields`, those of a
    task of several files, candidates take the place of the folder, and `file` is the first that may change."""

    repository: str
    file: str
    fields: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]])

    @property
    def source(self) -> str:
        """The file or folder, relative to the example."""
        return self.repository if self.fields else f"{self.repository}/{self.file}"


def place_of(folder: Path, evo: Mapping[str, Any], program: str) -> Place | None:
    """None if the example has no repository. Raises UsageError if it is not there, if no file may change, and if the
    wanted one may not."""
    seed = evo.get(SEED)
    if not isinstance(seed, str) or not seed:
        return None
    repository = next((path for path in (seed, PurePosixPath(seed).name) if (folder / path).is_dir()), None)
    if repository is None or not (folder / repository).resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{folder} has no folder {seed!r}, which its settings name as {SEED}.")
    mutable = _paths(evo.get("mutable_paths")) or ["."]
    immutable, ignored = _paths(evo.get("immutable_paths")), _paths(evo.get("ignore_paths"))
    left_out = [*immutable, *ignored]
    files = sorted(set(_files(folder / repository, mutable, left_out)))
    if program:
        chosen = program.removeprefix(f"{repository}/")
        if chosen not in files:
            raise UsageError(f"{program!r} is not a file of {folder / repository} that may change: {_some(files)}.")
        return Place(repository, chosen)
    if len(files) == 1:
        return Place(repository, files[0])
    if not files:
        raise UsageError(f"No file of {folder / repository} may change: see mutable_paths in the example's settings.")
    change = [*("**" if path == "." else path for path in mutable), *(f"!{_glob(path)}" for path in immutable)]
    return Place(repository, files[0], {"change": change, **({"hide": list(map(_glob, ignored))} if ignored else {})})


def _glob(pattern: str) -> str:
    """A pattern without a folder stands for names in every folder."""
    return pattern if "/" in pattern else f"**/{pattern}"


def _files(repository: Path, mutable: Sequence[str], left_out: Sequence[str]) -> Iterator[str]:
    for name in mutable:
        start = repository / name
        for path in sorted(start.rglob("*")) if start.is_dir() else [start]:
            inside = path.is_file() and path.resolve().is_relative_to(repository.resolve())
            if not inside or path.suffix.lower() in NO_PROGRAMS:
                continue
            file = path.relative_to(repository).as_posix()
            hidden = any(part.startswith(".") or part == "__pycache__" for part in PurePosixPath(file).parts)
            if not hidden and not any(_below(file, pattern) for pattern in left_out):
                yield file


def _below(name: str, pattern: str) -> bool:
    return fnmatch(name, pattern) or fnmatch(PurePosixPath(name).name, pattern) or name.startswith(f"{pattern}/")


def _paths(value: Any) -> list[str]:
    paths = (
        [str(path).strip("/").removeprefix("./") for path in cast("list[Any]", value)]
        if isinstance(value, list)
        else []
    )
    return [path for path in paths if path and ".." not in PurePosixPath(path).parts]


def _some(files: Sequence[str]) -> str:
    more = ", …" if len(files) > MOST_NAMED else ""
    return f"{', '.join(files[:MOST_NAMED])}{more}"
