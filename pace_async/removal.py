"""Removes a folder that an untrusted program has filled: of any depth, with any modes, without following a link.

`shutil.rmtree` calls itself for each level (Python 3.11). Folders nested some thousand deep, which a program makes in a
moment, end it with a RecursionError. A folder that may not be read stays behind.

Invariant: only entries of the folder are touched, because each step names an entry of an open folder.
"""

import contextlib
import os
import secrets
import time
from pathlib import Path

PATIENCE_S = 60.0
"""A process that outlives its program may go on writing. After this time the rest stays."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UNREAD = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(folder: Path) -> None:
    """Remove as much as can be removed. A link is removed, and what it leads to stays. Raises nothing."""
    with contextlib.suppress(OSError):
        root = os.open(folder, _FOLDER)
        try:
            _empty(root)
        finally:
            os.close(root)
        folder.rmdir()
        return
    with contextlib.suppress(OSError):
        folder.unlink()


def _empty(root: int) -> None:
    """Folders are moved up to `root`, each before its parent is removed, so that no path gets long."""
    stuck: set[str] = set()
    new, number = secrets.token_hex(8), 0
    deadline = time.monotonic() + PATIENCE_S
    while names := [name for name in os.listdir(root) if name not in stuck]:
        for name in names:
            if time.monotonic() > deadline:
                return
            if _unlinked(name, root):
                continue
            number = _move_up(name, root, f"{new}-", number)
            try:
                os.rmdir(name, dir_fd=root)
            except OSError:
                stuck.add(name)


def _move_up(name: str, root: int, new: str, number: int) -> int:
    """Empty the folder `name`: its folders become `new` and a number in `root`. Returns the next number."""
    try:
        inner = _opened(name, root)
    except OSError:
        return number
    try:
        for entry in os.listdir(inner):  # noqa: PTH208 (of an open folder)
            if not _unlinked(entry, inner):
                with contextlib.suppress(OSError):
                    os.close(_opened(entry, inner))  # a folder that may not be written cannot be moved
                    os.rename(entry, f"{new}{number}", src_dir_fd=inner, dst_dir_fd=root)
                number += 1
    finally:
        os.close(inner)
    return number


def _opened(name: str, at: int) -> int:
    """A descriptor of a folder, which its owner may read and write from here on. Raises OSError."""
    unread = os.open(name, _UNREAD, dir_fd=at)
    try:
        with contextlib.suppress(OSError):
            Path(f"/proc/self/fd/{unread}").chmod(0o700)
        return os.open(".", _FOLDER, dir_fd=unread)
    finally:
        os.close(unread)


def _unlinked(name: str, at: int) -> bool:
    """Whether the entry was not a folder, and is gone."""
    try:
        os.unlink(name, dir_fd=at)
    except OSError:
        return False
    return True
