"""Files written whole or not at all, and names for the failures of a disk.

Invariant: a path holds its old content or all of the new content, whatever fails or is killed in between. Every failure
of a disk is an InfrastructureFault, so the caller may try again later.
"""

import contextlib
import errno
import os
import tempfile
from pathlib import Path

from pace_async.errors import GaveUp, InfrastructureFault, PaceError, UsageError
from pace_async.outside import printable, sound

DISK_FAULTS = {
    "disk_full": "the disk is full",
    "disk_read_only": "the disk is read-only",
    "disk_broken": "the disk fails",
    "cannot_write": "a file cannot be written",
}
"""The kinds of faults of a disk, in words."""

DISK_REMEDIES = {
    "disk_full": "make room and give the command again",
    "disk_read_only": "make it writable, or name a folder on another disk, and give the command again",
    "disk_broken": "the system's log says more; give the command again on another disk",
}
"""What a person does about each, but for the kind that has many causes."""

_KINDS = {
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EFBIG: "disk_full",
    errno.EROFS: "disk_read_only",
    errno.EIO: "disk_broken",
}


def write_whole(path: Path, content: bytes | str) -> None:
    """Replace the content of `path` and sync it to the disk. Text is written as UTF-8. The folder must exist. Raises
    InfrastructureFault and then leaves `path` as it was."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            with draft.open("wb") as stream:
                stream.write(sound(content).encode() if isinstance(content, str) else content)
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(path)
            sync(path.parent)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise disk_fault(error, path) from error


def refuse_unless_utf8(path: Path) -> None:
    """Raises UsageError for a path with bytes that are no UTF-8: no row and no file of settings can hold it."""
    if sound(str(path)) != str(path):
        raise UsageError(f"{printable(str(path))} is no path in UTF-8: rename what it names.")


def temporary_folder() -> Path:
    """The folder of temporary files. Raises UsageError if none can be written."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        raise UsageError(
            "No folder for temporary files can be written, neither TMPDIR nor /tmp: set TMPDIR to one that can."
        ) from None


def sync(path: Path) -> None:
    """Flush a file, or a folder's entries, to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def disk_fault(error: OSError, path: Path | None = None) -> InfrastructureFault:
    """An error of a disk as a fault. `path` is named where the error names no file. The kind is one of `DISK_FAULTS`,
    or "cannot_write" for other errors."""
    file = path or error.filename
    words = error.strerror or str(error)
    return InfrastructureFault(_KINDS.get(error.errno or 0, "cannot_write"), f"{file}: {words}" if file else words)


def refusal_of(error: OSError) -> PaceError | None:
    """What a command says that ends by this error. None if no person's deed or disk is known to be the cause."""
    if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
        return UsageError(f"{str(error.filename or '')[:80]}…: {error.strerror}.")
    fault = disk_fault(error)
    if fault.kind == "cannot_write":
        return None
    return GaveUp(f"{DISK_FAULTS[fault.kind]} ({fault.detail}): nothing more was written; {DISK_REMEDIES[fault.kind]}.")
