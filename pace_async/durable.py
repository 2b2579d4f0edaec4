"""Files written whole or not at all, and what a disk that fails is called.

Invariant: a path holds what stood there before or all of the new content, whatever fails or is killed in between.
Every failure of a disk is an InfrastructureFault: whoever writes may try again later.
"""

import contextlib
import errno
import os
from pathlib import Path

from pace_async.errors import InfrastructureFault

DISK_FAULTS = {
    "disk_full": "the disk is full",
    "disk_read_only": "the disk is read-only",
    "disk_broken": "the disk fails",
    "cannot_write": "a file cannot be written",
}
"""The kinds of faults of a disk, in words."""

_KINDS = {
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EFBIG: "disk_full",
    errno.EROFS: "disk_read_only",
    errno.EIO: "disk_broken",
}


def write_whole(path: Path, content: bytes | str) -> None:
    """Let `path` hold `content`, through to the disk; text as UTF-8. Its folder must be there. Raises
    InfrastructureFault; then `path` is as it was."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            with draft.open("wb") as stream:
                stream.write(content.encode() if isinstance(content, str) else content)
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


def sync(path: Path) -> None:
    """Bring a file or a folder's entries through to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def disk_fault(error: OSError, path: Path | None = None) -> InfrastructureFault:
    """An error of a disk as a fault; `path`: what was written, where the error does not name it. Of a kind of
    `DISK_FAULTS`: "cannot_write" where it is none of the others."""
    named = path or error.filename
    words = error.strerror or str(error)
    return InfrastructureFault(_KINDS.get(error.errno or 0, "cannot_write"), f"{named}: {words}" if named else words)
