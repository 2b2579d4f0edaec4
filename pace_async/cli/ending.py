"""pace stop and pace rm: end a run that another process drives, and remove a run."""

import sys

import typer

from pace_async.cli.completing import run_names
from pace_async.cli.output import tell
from pace_async.runtime.run_index import forget_run
from pace_async.runtime.run_paths import RunPaths, find_run_paths

_RUN = typer.Argument(..., help="Run folder, or its name under ./runs.", autocompletion=run_names)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("stop")(stop)
    app.command("rm")(remove)


def stop(
    run: str = _RUN,
    now: bool = typer.Option(False, "--now", help="Cancel what is running instead of letting it finish."),
    wait: bool = typer.Option(True, "--wait/--no-wait", help="Wait until the run has ended."),
) -> None:
    """End a run that another terminal or job drives, as Ctrl-C there would. `pace resume` goes on with it.

    The run begins nothing new and finishes what is running, for faults.drain_s seconds at most. Ctrl-C here ends the
    waiting, not the run.

    Example: pace stop circle_packing-1

    Example: pace stop circle_packing-1 --now
    """
    from pace_async.errors import Interrupted
    from pace_async.population.lock import wait_until_free
    from pace_async.runtime.ending import ask_to_end

    paths = find_run_paths(run)
    process = ask_to_end(paths.folder, now=now)
    if process is None:
        tell(f"No process drives run {paths.name}: there is nothing to stop.")
        return
    doing = "cancel what it runs" if now else "finish what it runs and begin nothing new (--now cancels it)"
    tell(f"Process {process} was asked to {doing}.")
    if not wait:
        return
    try:
        wait_until_free(paths.folder)
    except KeyboardInterrupt:
        raise typer.Exit(Interrupted.exit_code) from None
    tell(f"Run {paths.name} has ended: `pace resume {run}` goes on with it.")


def remove(
    run: str = _RUN,
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
) -> None:
    """Remove a run: its folder with the population, the weights and the logs. Asks first.

    A run that a process drives is refused. Rows on a database server stay there.

    Example: pace rm circle_packing-1 --yes
    """
    from pace_async.errors import UsageError
    from pace_async.population.lock import RunLock
    from pace_async.removal import remove_tree

    paths = find_run_paths(run)
    folder = paths.folder
    if folder.is_symlink():
        raise UsageError(f"{folder} is a link: remove it, or the run that it leads to by its own name.")
    with RunLock(folder):
        contents, server = _contents(paths), paths.pointer.exists()
        if not yes:
            if not sys.stdin.isatty():
                raise UsageError(f"Nothing was removed: `pace rm {run} --yes` removes {folder} ({contents}).")
            typer.confirm(f"Remove {folder} ({contents})?", abort=True)
        remove_tree(folder)
    forget_run(folder)
    if folder.exists():
        raise UsageError(f"Not all of {folder} could be removed: look at its owner and its permissions.")
    tell(f"Removed {folder} ({contents}).{' Its rows on the server stay there.' if server else ''}")


def _contents(paths: RunPaths) -> str:
    """How many candidates the run has, and its size on the disk."""
    import os
    from contextlib import suppress

    from pace_async.errors import UsageError
    from pace_async.population.reading.reader import open_readonly

    said, size = "a population that cannot be read", 0
    with suppress(UsageError):
        where, name = paths.population
        with open_readonly(where, name) as reader:
            said = f"{sum(one.candidates for one in reader.summaries() if name in (None, one.run))} candidates"
    for folder, _, files in os.walk(paths.folder):
        for file in files:
            with suppress(OSError):
                size += os.lstat(os.path.join(folder, file)).st_size  # noqa: PTH118 (thousands of files)
    return f"{said}, {size / 1e6:.1f} MB"
