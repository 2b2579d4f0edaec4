"""The command line, called in this process by its own entry point: what a person types, and what comes back."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pace_async.cli.main import main

PACE = str(Path(sys.executable).with_name("pace"))


@dataclass(frozen=True, slots=True)
class Said:
    """Exit code, standard output, standard error."""

    code: int
    out: str
    err: str


def search(folder: Path, arguments: Sequence[str]) -> Said:
    """A search without learning, in separate processes, in `folder`, with a key that any local server accepts."""
    done = subprocess.run(
        [PACE, *arguments],
        cwd=folder,
        env={**os.environ, "PACE_LEARNER__OBJECTIVE": "none", "OPENAI_API_KEY": "any"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=500,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


class Shell:
    """A person in a folder."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str]) -> None:
        self.folder, self._patch, self._captured = folder, patch, captured

    def pace(self, *arguments: str) -> Said:
        """Run one command."""
        self._patch.chdir(self.folder)
        self._patch.setattr(sys, "argv", ["pace", *arguments])
        self._captured.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        out, err = self._captured.readouterr()
        return Said(code, out, err)

    def files(self) -> list[str]:
        """What lies in the folder."""
        return sorted(path.name for path in self.folder.iterdir())
