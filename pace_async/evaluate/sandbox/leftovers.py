"""Removes the private directories and control groups that a killed runtime left behind.

Each carries the process id of its runtime, and the process namespace of that id. `sweep` removes those whose runtime
has ended, and never one of a live process, of another namespace or of another user.
"""

import contextlib
import os
import re
import tempfile
from functools import cache
from pathlib import Path

from pace_async.evaluate.sandbox.tiers import mapped_users
from pace_async.removal import remove_tree

_NAME = re.compile(r"pace-(\d+)-(\d+)-\w+")


def prefix() -> str:
    """The prefix of the names of this process's directories and control groups."""
    return f"pace-{_namespace()}-{os.getpid()}-"


def sweep(*control_folders: Path) -> None:
    """Remove what dead processes left in the temporary directory and in these control group folders."""
    for folder in _orphans(Path(tempfile.gettempdir())):
        remove_tree(folder)
    for control in control_folders:
        for group in _orphans(control):
            with contextlib.suppress(OSError):  # another process removed it, or its last process has not ended
                group.rmdir()


def _orphans(folder: Path) -> list[Path]:
    orphans: list[Path] = []
    for path in folder.glob(f"pace-{_namespace()}-*"):
        match = _NAME.fullmatch(path.name)
        with contextlib.suppress(OSError):
            mine = _belongs_here(path.lstat().st_uid) and path.is_dir() and not path.is_symlink()
            if match and mine and not Path("/proc", match[2]).exists():
                orphans.append(path)
    return orphans


def _belongs_here(uid: int) -> bool:
    """Whether what this user owns may be this process's, or a candidate's that this process started as root."""
    first, count = mapped_users()
    return uid == os.getuid() or (os.getuid() == 0 and uid in range(first, first + count))


@cache
def _namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino
