"""The files of a candidate's Python: its interpreter, its standard library, the installed packages, and the system's
shared libraries. A candidate sees nothing else."""

import os
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
COMMANDS = ("/bin", "/sbin")


@dataclass(frozen=True, slots=True)
class PythonFiles:
    """`paths` are files and folders to show at their own place. `links` are (place, target) of top-level symlinks such
    as /lib -> usr/lib, and `targets` are the same places with the links followed. `parents` are all folders above them.
    `imports` are added to the import path."""

    executable: Path
    base: Path
    paths: tuple[Path, ...]
    links: tuple[tuple[str, str], ...]
    targets: tuple[Path, ...]
    parents: tuple[Path, ...]
    imports: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class PythonAccess:
    """How a process of another user reaches Python: its interpreter, additions to the import path, and the descriptors
    that it must inherit. The two paths use them if a folder on the way is closed to other users."""

    executable: Path
    imports: tuple[Path, ...]
    descriptors: tuple[int, ...]


@cache
def locate() -> PythonFiles:
    """The files of the interpreter that runs this process. A virtual environment's packages are used with the
    interpreter that the environment was made from."""
    base = Path(sys.base_prefix).resolve()
    executable = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    imports = tuple(dict.fromkeys(Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")))
    places = [executable, base / "lib", base / "lib64", *imports]
    links: list[tuple[str, str]] = []
    targets: list[Path] = []
    for library in map(Path, LIBRARIES):
        if library.is_symlink() and library.is_dir():
            links.append((str(library), str(library.readlink())))
            targets.append(library.resolve())
        elif library.exists():
            places.append(library)
    paths = _without_nested([path for path in places if _is_there(path)])
    parents = sorted({parent for path in paths for parent in path.parents if parent != Path("/")})
    return PythonFiles(executable, base, tuple(paths), tuple(links), tuple(targets), tuple(parents), imports)


def _is_there(path: Path) -> bool:
    """Whether it is there itself. What this user may not reach is not."""
    try:
        return path.exists() and not path.is_symlink()
    except PermissionError:
        return False


@lru_cache(maxsize=8)
def extended(python: PythonFiles, further: tuple[Path, ...]) -> PythonFiles:
    """The same files with further files, folders and links, and with the links to the system's commands."""
    if not further:
        return python
    links = [(str(link), str(link.readlink())) for link in (*map(Path, COMMANDS), *further) if link.is_symlink()]
    paths = _without_nested([*python.paths, *(path for path in further if not path.is_symlink())])
    parents = sorted({parent for path in paths for parent in path.parents if parent != Path("/")})
    return replace(python, paths=tuple(paths), links=(*python.links, *links), parents=tuple(parents))


@cache
def reached_by_others(python: PythonFiles) -> PythonAccess:
    """The descriptors stay open as long as this process lives. Raises OSError."""
    ways = {folder: _way(folder) for folder in (python.base, *python.imports)}
    executable, base = python.executable, python.base
    if executable.is_relative_to(base):
        executable = ways[base] / executable.relative_to(base)
    imports = tuple(ways[folder] for folder in python.imports)
    through = tuple(int(way.name) for folder, way in ways.items() if way != folder)
    return PythonAccess(executable, imports, through)


def _way(folder: Path) -> Path:
    """A path to the folder that also works for users who may not enter its parent folders."""
    if all(parent.stat().st_mode & 0o001 for parent in folder.parents):
        return folder
    return Path("/proc/self/fd", str(os.open(folder, os.O_PATH)))


def outside(paths: Iterable[Path], hidden: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The same paths with every hidden folder left out: (those to read whole, those only to list)."""
    whole: list[Path] = []
    listed: list[Path] = []
    queue = list(paths)
    while queue:
        path = queue.pop()
        if any(path.is_relative_to(folder) for folder in hidden):
            continue
        if any(folder.is_relative_to(path) for folder in hidden):
            listed.append(path)
            queue += path.iterdir()
        else:
            whole.append(path)
    return whole, listed


def _without_nested(paths: Sequence[Path]) -> list[Path]:
    """Each path once, and none that lies below another."""
    unique = list(dict.fromkeys(paths))
    return [path for path in unique if not any(path != other and path.is_relative_to(other) for other in unique)]
