"""The folders in which agents work: RUN/agents/LEASE, one for each candidate in work.

A first try gets a fresh folder. A later try gets the same folder, with the program put back to that of the last try. A
folder is removed when its lease has left the implementer and the evaluator for good, unless it is to be kept. A resume
finds the folders of open leases.
"""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pace_async.durable import disk_fault
from pace_async.errors import CandidateFault
from pace_async.implement.agent_tree import make_tree
from pace_async.programs.tree import file_text, opened_folder
from pace_async.removal import remove_tree

OUTPUT = "OUTPUT.txt"
"""What the last call printed."""


@dataclass(frozen=True, slots=True)
class AgentFolders:
    """The folders of a run. `log` is for errors of what starts the command. `has_ended` says whether a lease needs its
    folder no more."""

    root: Path
    log: Path
    has_ended: Callable[[int], bool]
    keep: bool = False

    def prepare_tree(
        self, lease: int, program: Mapping[str, str], texts: Mapping[str, str], ignore: Sequence[str]
    ) -> Path:
        """The absolute path of the lease's folder as a work tree (`agent_tree`), fresh for each try, because an agent
        may have put links in the place of its folders. Raises InfrastructureFault if the disk or Git fails."""
        self.sweep()
        folder = self.root.resolve() / str(lease)
        try:
            make_tree(folder, program, texts, ignore)
        except OSError as error:
            raise disk_fault(error, folder) from error
        return folder

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
                replace_file(folder / name, text)
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


def replace_file(path: Path, text: str) -> None:
    """Write a file, whatever stands there. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)
    path.write_bytes(text.encode("utf-8", "replace"))


def read_program(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """The text of each file of the program. A further file that is gone has none. No link is followed, so nothing from
    outside the folder becomes a program. Raises CandidateFault for a first file that is gone, and for what is no plain
    file, no text or too long."""
    with opened_folder(folder) as opened:
        present = {name for name in names if _is_there(name, opened)}
        if names[0] not in present:
            raise CandidateFault("empty_answer", f"the program's file {names[0]} is gone")
        return {
            name: file_text(name, opened, f"the program's file {name}", "empty_answer") if name in present else ""
            for name in names
        }


def _is_there(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True
