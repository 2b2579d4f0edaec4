"""Copies a population, also during a run.

SQLite's online backup copies one moment of the database and disturbs neither readers nor the writer. Invariant: the
target is either unchanged or a complete copy that has passed the database's own check.
"""

import os
import sqlite3
from pathlib import Path

from pace_async.errors import UsageError
from pace_async.population.connect import Place, locate
from pace_async.population.sqlite import BUSY_TIMEOUT_S, changed_since, mark, reading_uri, refuse_unless_sound


def back_up(where: str | Place, target: Path, *, force: bool = False) -> int:
    """Copy the population to `target`, one file without a log. Returns the bytes written. Raises UsageError if `target`
    exists (unless `force`), cannot be written, or the copy fails its check."""
    source = locate(where)
    if not isinstance(source, Path):
        raise UsageError(f"{source} is backed up with PostgreSQL's own tool: pg_dump '{source}' > {target}.")
    refuse_unless_sound(source)
    if target.is_dir():
        raise UsageError(f"{target} is a folder: name the file of the backup.")
    if target.exists() and target.samefile(source):
        raise UsageError(f"{target} is the population itself: name another file.")
    if target.exists() and not force:
        raise UsageError(f"{target} is there already: name another file, or add --force.")
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        _copy(source, draft)
        size = draft.stat().st_size
        _settle(draft, target)
    except sqlite3.Error as error:
        raise UsageError(f"{source} could not be copied to {target}: {error}.") from None
    except OSError as error:
        raise UsageError(f"Cannot write {target}: {error.strerror}.") from None
    finally:
        draft.unlink(missing_ok=True)
    return size


def _copy(source: Path, draft: Path) -> None:
    if not draft.parent.is_dir():
        raise UsageError(f"Cannot write {draft.parent}: there is no such folder.")
    first_mark, uri = mark(source), reading_uri(source)
    reader = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S)
    writer = sqlite3.connect(draft, isolation_level=None)
    try:
        reader.backup(writer)
        writer.execute("PRAGMA journal_mode=DELETE")
        findings = [row[0] for row in writer.execute("PRAGMA integrity_check")]
    finally:
        writer.close()
        reader.close()
    if changed_since(uri, source, first_mark):
        raise UsageError(f"{source} was written while it was copied: ask again.")
    if findings != ["ok"]:
        raise UsageError(f"The copy of {source} does not pass its check ({findings[0]}): see `pace db check`.")


def _settle(draft: Path, target: Path) -> None:
    """Sync the copy to the disk, then rename it."""
    with draft.open("rb") as stream:
        os.fsync(stream.fileno())
    draft.replace(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
