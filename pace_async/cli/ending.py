"""pace stop and pace rm: end what another process drives, a run or a series of them, and remove it."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import typer

from pace_async.cli.completing import run_names
from pace_async.cli.output import tell
from pace_async.runtime.run_index import forget_run
from pace_async.runtime.run_paths import RunPaths, find_run_paths, runs_under

_RUN = typer.Argument(..., help="Run folder, or its name under ./runs, or those of a series.", autocompletion=run_names)


@dataclass(frozen=True, slots=True)
class _Named:
    """What the user named: `what` is "run" or "series", and `runs` are those in its folder."""

    what: str
    folder: Path
    runs: Sequence[RunPaths]

    def __str__(self) -> str:
        return f"{self.what} {self.folder.name}"


def _target_of(run: str) -> _Named:
    """Raises UsageError if there is no such run or series."""
    from pace_async.runtime.series import series_folder

    if (folder := series_folder(run)) is not None:
        return _Named("series", folder, sorted(runs_under(folder), key=lambda paths: paths.name))
    paths = find_run_paths(run)
    return _Named("run", paths.folder, [paths])


def stop(
    run: str = _RUN,
    now: bool = typer.Option(False, "--now", help="Cancel what is running instead of letting it finish."),
    wait: bool = typer.Option(True, "--wait/--no-wait", help="Wait until the run has ended."),
) -> None:
    """End a run that another terminal or job drives, as Ctrl-C there would. `pace resume` goes on with it. Of a series
    that is the run that is going on, and those after it do not begin.

    The run begins nothing new and finishes what is running, for faults.drain_s seconds at most. Ctrl-C here ends the
    waiting, not the run.

    Example: pace stop circle_packing-1

    Example: pace stop circle_packing-1 --now
    """
    from pace_async.errors import Interrupted
    from pace_async.population.lock import is_driven, wait_until_free
    from pace_async.runtime.ending import ask_to_end

    target = _target_of(run)
    driven = is_driven(target.folder)  # by the process of the whole series, which gets one signal
    folders = [target.folder] if driven else [paths.folder for paths in target.runs]
    processes = {folder: process for folder in folders if (process := ask_to_end(folder, now=now)) is not None}
    if not processes:
        tell(f"No process drives {target}: there is nothing to stop.")
        return
    doing = "cancel what it runs" if now else "finish what it runs and begin nothing new (--now cancels it)"
    for process in processes.values():
        tell(f"Process {process} was asked to {doing}.")
    if not wait:
        return
    try:
        for folder in processes:
            wait_until_free(folder)
    except KeyboardInterrupt:
        raise typer.Exit(Interrupted.exit_code) from None
    tell(f"{target.what.capitalize()} {target.folder.name} has ended: `pace resume {run}` goes on with it.")


def remove(
    run: str = _RUN,
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
) -> None:
    """Remove a run: its folder with the population, the weights and the logs. Of a series, all its runs. Asks first.

    What a process drives is refused. Rows on a database server stay there.

    Example: pace rm circle_packing-1 --yes
    """
    from pace_async.errors import UsageError
    from pace_async.population.lock import RunLock
    from pace_async.removal import remove_tree

    target = _target_of(run)
    folder = target.folder
    if folder.is_symlink():
        raise UsageError(f"{folder} is a link: remove it, or the {target.what} that it leads to by its own name.")
    with ExitStack() as locks:
        for place in dict.fromkeys((folder, *(paths.folder for paths in target.runs))):
            locks.enter_context(RunLock(place))
        contents, server = _contents(target), any(paths.pointer.exists() for paths in target.runs)
        if not yes:
            if not sys.stdin.isatty():
                raise UsageError(f"Nothing was removed: `pace rm {run} --yes` removes {folder} ({contents}).")
            typer.confirm(f"Remove {folder} ({contents})?", abort=True)
        remove_tree(folder)
    for paths in target.runs:
        forget_run(paths.folder)
    if folder.exists():
        raise UsageError(f"Not all of {folder} could be removed: look at its owner and its permissions.")
    tell(f"Removed {folder} ({contents}).{' Its rows on the server stay there.' if server else ''}")


def _contents(target: _Named) -> str:
    """How many runs and candidates there are, and the size on the disk."""
    import os
    from contextlib import suppress

    size = 0
    for folder, _, files in os.walk(target.folder):
        for file in files:
            with suppress(OSError):
                size += os.lstat(os.path.join(folder, file)).st_size  # noqa: PTH118 (thousands of files)
    counts = [_candidates(paths) for paths in target.runs]
    known = [count for count in counts if count is not None]
    unread = len(counts) - len(known)
    parts = [] if target.what == "run" else [f"{len(counts)} run{'' if len(counts) == 1 else 's'}"]
    parts += [f"{sum(known)} candidates"] if known or not counts else []
    parts += ["a population that cannot be read"] if unread == 1 else []
    parts += [f"{unread} populations that cannot be read"] if unread > 1 else []
    return f"{', '.join(parts)}, {size / 1e6:.1f} MB"


def _candidates(paths: RunPaths) -> int | None:
    """None if the population cannot be read."""
    from pace_async.errors import UsageError
    from pace_async.population.reading.reader import open_readonly

    try:
        where, name = paths.population
        with open_readonly(where, name) as reader:
            return sum(summary.candidates for summary in reader.summaries() if name in (None, summary.run))
    except UsageError:
        return None
