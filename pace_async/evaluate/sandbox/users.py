"""User ids for candidates, and how much of a user's allowance of processes is taken."""

import os
import secrets
from functools import cache
from pathlib import Path


def fresh_uid() -> int:
    """A user id that no one else has: no neighbour to signal, no count of processes to share."""
    first, count = _mapped_users()
    return first + secrets.randbelow(count)


def belongs_here(uid: int) -> bool:
    """Whether what this user owns may be this process's, or a candidate's that this process started as root."""
    first, count = _mapped_users()
    return uid == os.getuid() or (os.getuid() == 0 and uid in range(first, first + count))


@cache
def _mapped_users() -> tuple[int, int]:
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        inside, _, length = (int(part) for part in line.split())
        if inside + length > 0x70000000:
            return 0x60000000, 0x10000000
    return 65534, 1


@cache
def tasks_of_user() -> int:
    """Threads that this user runs already: RLIMIT_NPROC counts them too."""
    count, user = 0, os.getuid()
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and folder.stat().st_uid == user:
                count += len(list((folder / "task").iterdir()))
        except OSError:
            continue
    return count
