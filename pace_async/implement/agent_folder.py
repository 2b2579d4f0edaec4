"""The folders in which agents work: RUN/agents/LEASE, one for each unfinished candidate.

A first try gets a fresh folder. A later try gets the same folder, with the program put back to that of the last try. A
folder is removed when its lease has left the implementer and the evaluator for good, unless it is to be kept. A resume
finds the folders of open leases.
"""

import contextlib
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pace_async.durable import disk_fault
from pace_async.errors import CandidateFault
from pace_async.programs.compiled import LONGEST_PROGRAM
from pace_async.removal import remove_tree

MOST_BYTES = 4 * LONGEST_PROGRAM
"""Of one file: UTF-8 has at most four bytes a character."""
OUTPUT = "OUTPUT.txt"
"""What the last call printed."""


@dataclass(frozen=True, slots=True)
class AgentFolders:
    """The folders of a run. `log` is for errors of what starts the command. `has_ended` says whether a lease no longer
    needs its folder."""

    root: Path
    log: Path
    has_ended: Callable[[int], bool]
    keep: bool = False

    def prepare(self, lease: int, files: Mapping[str, str], *, again: bool) -> Path:
        """The absolute path of the lease's folder with these files, fresh unless `again`. Removes the folders of ended
        leases. Raises InfrastructureFault if the disk fails."""
        self.sweep()
        folder = self.root.resolve() / str(lease)
        try:
            if not again or folder.is_symlink():
                remove_tree(folder)
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                put(folder / name, text)
        except OSError as error:
            raise disk_fault(error, folder) from error
        return folder

    def sweep(self) -> None:
        """Remove the folders of ended leases."""
        if self.keep or not self.root.is_dir():
            return
        for folder in self.root.iterdir():
            if folder.name.isdecimal() and self.has_ended(int(folder.name)):
                remove_tree(folder)

    def close(self) -> None:
        """Remove what no resume needs."""
        self.sweep()
        with contextlib.suppress(OSError):
            self.root.rmdir()


def put(path: Path, text: str) -> None:
    """Write a file, whatever stands there. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)
    path.write_bytes(text.encode("utf-8", "replace"))


def read_program(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """The text of each file of the program. A further file that is gone has none. Raises CandidateFault for a first
    file that is gone, and for what is not text or too long."""
    first, *others = names
    text = _text(folder / first)
    if text is None:
        raise CandidateFault("empty_answer", f"the program's file {first} is gone")
    return {first: text, **{name: _text(folder / name) or "" for name in others}}


def _text(path: Path) -> str | None:
    """None unless it is a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise CandidateFault("program_too_long", f"{status.st_size} bytes, of {LONGEST_PROGRAM} characters allowed")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise CandidateFault("not_text", f"{path.name} is not UTF-8 text") from None
