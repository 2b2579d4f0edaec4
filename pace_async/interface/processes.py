"""A run as a separate process, and its end as a value or an error.

A run needs a process: it obeys signals, holds the run's lock and limits its own memory. So a notebook, a thread and an
event loop can all start one, and the run goes on when they end. The process reads what was asked on its standard input
(`interface.child`).
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import IO

from pace_async.errors import GaveUp, Interrupted, PaceError, RunLocked, SeedProgramFails, UsageError
from pace_async.interface.beginning import Asked, AskedOn, Settings, document_of
from pace_async.interface.reading import Run

LINE = [sys.executable, "-m", "pace_async.interface.child"]
_ENDED = {0, 3}  # done, or stopped by the budget: both are states of the run
_ERRORS = {kind.exit_code: kind for kind in (UsageError, RunLocked, SeedProgramFails, GaveUp, Interrupted)}


@dataclass(frozen=True, slots=True)
class RunProcess:
    """What is asked of the process, and the folder of its run. `claimed`: the folder was made for it."""

    asked: Asked | AskedOn
    folder: Path
    claimed: bool = False

    @property
    def document(self) -> bytes:
        """What is asked, for the process to read."""
        return document_of(self.asked).encode()

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
        text = said.read().decode(errors="replace").strip()
        if code == Interrupted.exit_code:
            text = text or f"interrupted: pace.resume({str(self.folder)!r}) goes on."
        raise _ERRORS.get(code, PaceError)(text or f"The process of the run ended with exit code {code}.")


def start_process(
    task: str | PathLike[str] | None,
    settings: Settings | None,
    config: Sequence[str | Path],
    run_dir: str | Path | None,
    seeds: int | str | Path | None = None,
) -> RunProcess:
    """Begin a run, or a series of `seeds` runs, or go on with the series that the same call began. A folder as `seeds`
    has programs that one run begins with. Without `run_dir` the folder of the run is made, so that another run that
    begins takes another name, as that of a series always is. Raises UsageError for a wrong setting or task, before any
    process is started."""
    from pace_async.interface.series_of_runs import with_folder
    from pace_async.runtime.run_paths import claimed, new_run_paths
    from pace_async.task import load_task

    overrides = {**(settings or {}), **({} if task is None else {"task": fspath(task)})}
    request = Asked(settings=overrides, files=config, run_dir=run_dir, seeds=seeds)
    if request.runs is not None:
        folder = with_folder(request.config, request.runs, request.folder).folder.resolve()
        return RunProcess(replace(request, run_dir=folder), folder)
    paths = new_run_paths(load_task(request.config.task).name, request.folder)
    folder = (claimed(paths) if run_dir is None else paths).folder.resolve()
    return RunProcess(replace(request, run_dir=folder), folder, run_dir is None)


def resumed(run: str | Path | None, settings: Settings | None) -> RunProcess:
    """Go on with a run. Raises UsageError if there is none."""
    from pace_async.runtime.run_paths import find_run_paths

    folder = find_run_paths(None if run is None else str(run)).folder.resolve()
    return RunProcess(AskedOn(run=str(folder), settings=dict(settings or {})), folder)
