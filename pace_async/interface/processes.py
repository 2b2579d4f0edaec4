"""The command of a run as a separate process, and its end as a value or an error.

A run needs a process: it obeys signals, holds the run's lock and limits its own memory. So a notebook, a thread and an
event loop can all start one, and the run goes on when they end.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import IO

from pace_async.errors import GaveUp, Interrupted, PaceError, RunLocked, SeedProgramFails, UsageError
from pace_async.interface.reading import Run

Settings = Mapping[str, object]
"""Dotted names and values, such as {"stop.candidates": 16}: docs/configuration.md has them all."""

_ENDED = {0, 3}  # done, or stopped by the budget: both are states of the run
_ERRORS = {kind.exit_code: kind for kind in (UsageError, RunLocked, SeedProgramFails, GaveUp, Interrupted)}


@dataclass(frozen=True, slots=True)
class Command:
    """What is run, and the folder of the run that it makes or goes on with. `claimed`: the folder was made for it."""

    arguments: tuple[str, ...]
    folder: Path
    claimed: bool = False

    @property
    def line(self) -> list[str]:
        return [sys.executable, "-m", "pace_async", *self.arguments]

    def give_back(self) -> None:
        """Remove the folder that was made for the run, if nothing was written there."""
        if self.claimed:
            with suppress(OSError):
                self.folder.rmdir()

    def ended(self, code: int, said: IO[bytes]) -> Run:
        """The run, after its process ended. Raises the PaceError whose exit code it had."""
        if code in _ENDED:
            return Run(str(self.folder))
        self.give_back()
        said.seek(0)
        text = said.read().decode(errors="replace").strip().removeprefix("pace: ")
        if code == Interrupted.exit_code:
            text = text or f"interrupted: pace.resume({str(self.folder)!r}) goes on."
        raise _ERRORS.get(code, PaceError)(text or f"The process of the run ended with exit code {code}.")


def run_command(
    task: str | PathLike[str] | None,
    settings: Settings | None,
    config: Sequence[str | Path],
    run_dir: str | Path | None,
) -> Command:
    """Begin a run. Without `run_dir` its folder is made, so that another run that begins takes another name. Raises
    UsageError for a wrong setting or task, before any process is started."""
    from pace_async.configure import resolve
    from pace_async.runtime.run_paths import claimed, new_run_paths
    from pace_async.task import load_task

    given = {**(settings or {}), **({} if task is None else {"task": fspath(task)})}
    resolved = resolve([Path(file) for file in config], dict(given))
    paths = new_run_paths(load_task(resolved.task).name, None if run_dir is None else Path(run_dir))
    folder = (claimed(paths) if run_dir is None else paths).folder.resolve()
    files = [word for file in config for word in ("--config", str(file))]
    return Command(
        ("run", *files, *_sets(given), "--run-dir", str(folder), "--display", "none"), folder, run_dir is None
    )


def series_command(
    task: str | PathLike[str] | None,
    settings: Settings | None,
    config: Sequence[str | Path],
    run_dir: str | Path | None,
    seeds: int,
) -> Command:
    """Begin a series of runs, or go on with the one that the same call began. Its folder is made. Raises as
    `run_command` does."""
    from pace_async.configure import resolve
    from pace_async.runtime.series import made, planned_series
    from pace_async.task import load_task

    if seeds < 1:
        raise UsageError(f"seeds={seeds}: a series has at least one run.")
    given = {**(settings or {}), **({} if task is None else {"task": fspath(task)})}
    resolved = resolve([Path(file) for file in config], dict(given))
    place = None if run_dir is None else Path(run_dir)
    folder = made(planned_series(resolved, load_task(resolved.task).name, seeds, place, ())).folder.resolve()
    files = [word for file in config for word in ("--config", str(file))]
    asked = ("run", *files, *_sets(given), "--run-dir", str(folder), "--seeds", str(seeds), "--display", "none")
    return Command(asked, folder)


def resume_command(run: str | Path | None, settings: Settings | None) -> Command:
    """Go on with a run. Raises UsageError if there is none."""
    from pace_async.runtime.run_paths import find_run_paths

    folder = find_run_paths(None if run is None else str(run)).folder.resolve()
    return Command(("resume", str(folder), *_sets(settings or {}), "--display", "none"), folder)


def _sets(settings: Settings) -> list[str]:
    return [word for name, value in settings.items() for word in ("--set", f"{name}={json.dumps(value, default=str)}")]
