"""Copies a run to another place: its rows into a file or a server's database, its files into a new folder.

Invariant: the new folder gets its name, and the rows are committed, after everything was copied and read back. A copy
that fails leaves nothing. Between the two a killed process can leave a folder that points to no run: it holds no row
and may be removed. Sockets and links are left out.
"""

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pace_async.durable import sync
from pace_async.errors import GaveUp, UsageError
from pace_async.population.connect import locate
from pace_async.population.copying import RunCopied, run_copied
from pace_async.population.lock import LOCK_NAME, RunLock
from pace_async.population.postgres import Server
from pace_async.runtime.run_paths import RunPaths

OWN = {LOCK_NAME, "population.db", "population.db-wal", "population.db-shm", "population.url"}
"""Files of a run's folder that belong to that folder alone."""


@dataclass(frozen=True, slots=True)
class RunCopy:
    """The new folder, where its rows are, what was copied of them, and how many files with how many bytes."""

    folder: Path
    population: str
    rows: RunCopied
    files: int
    bytes: int


def copy_run(source: RunPaths, target: str, folder: Path | None = None) -> RunCopy:
    """Copy a run to `target`: the URL of a server's database, with the files in `folder` (by default the run's folder
    with "-copy" appended), or a new folder with a file of its own. Raises UsageError if there is such a folder or run
    already, RunLocked if the run is being driven, GaveUp if a disk or a database fails."""
    place = locate(target) if "://" in target else None
    if place is not None and not isinstance(place, Server):
        raise UsageError(f"{target} is a file: name the new run's folder instead.")
    if place is None and folder is not None:
        raise UsageError("--run-dir goes with the URL of a database: without one, the target is the folder itself.")
    default = source.folder.with_name(f"{source.folder.name}-copy")
    paths = RunPaths(Path(target) if place is None else folder or default)
    if paths.folder.exists():
        raise UsageError(f"{paths.folder} is there already: name another folder.")
    draft = RunPaths(paths.folder.with_name(f".{paths.folder.name}.{os.getpid()}.part"))
    is_renamed = False
    try:
        with RunLock(source.folder):
            files, size = _files_copied(source.folder, draft.folder)
            with run_copied(*source.population, place or draft.file) as rows:
                if place is not None:
                    draft.pointer.write_text(f"{place}\n{rows.run}\n")
                    draft.folder.rename(paths.folder)
                    is_renamed = True  # until the commit, which follows, it can still be taken back
            if place is None:
                draft.folder.rename(paths.folder)
        sync(paths.folder.parent)
    except OSError as error:
        raise GaveUp(
            f"The run could not be copied to {paths.folder} ({error.strerror}): nothing was copied, try again later."
        ) from None
    except BaseException:
        if is_renamed:
            shutil.rmtree(paths.folder, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(draft.folder, ignore_errors=True)
    return RunCopy(paths.folder, str(place or paths.file), rows, files, size)


def _files_copied(source: Path, target: Path) -> tuple[int, int]:
    """Copy the files of record and compare each with what was read. Returns how many, and their bytes."""
    target.mkdir(parents=True)
    count = size = 0
    for folder, names, files in os.walk(source):
        inside = Path(folder).relative_to(source)
        names[:] = sorted(name for name in names if not (Path(folder) / name).is_symlink())
        (target / inside).mkdir(exist_ok=True)
        for name in sorted(_of_record(Path(folder), files, top=inside == Path())):
            copied = Path(shutil.copy2(Path(folder) / name, target / inside / name))
            if _digest(copied) != _digest(Path(folder) / name):
                raise UsageError(f"{Path(folder) / name} changed while it was copied: nothing was copied.")
            count, size = count + 1, size + copied.stat().st_size
    return count, size


def _of_record(folder: Path, names: Sequence[str], *, top: bool) -> list[str]:
    """The files that are copied as they are: all but the population, its pointer and the lock."""
    own = (
        {LOCK_NAME, "population.db", "population.db-wal", "population.db-shm", "population.url"} if top else set[str]()
    )
    paths = {name: folder / name for name in names if name not in own}
    return [name for name, path in paths.items() if path.is_file() and not path.is_symlink()]


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
