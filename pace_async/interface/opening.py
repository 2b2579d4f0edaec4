"""Opens a run by name, for reading.

Invariant: a missing run is refused before anything heavy is loaded.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pace_async.runtime.run_paths import IN_A_FOLDER, RunPaths, find_run_paths, is_database

if TYPE_CHECKING:
    from pace_async.population.reading.reader import Reader


@contextmanager
def open_run(run: str | None) -> "Generator[tuple[RunPaths, Reader]]":
    """The run's paths and its population. Raises UsageError."""
    with open_anywhere(run) as (paths, reader):
        if paths is None:
            from pace_async.errors import UsageError

            alone = "the URL of a database." if "://" in str(run) else f"the database {run} alone. {IN_A_FOLDER}"
            raise UsageError(f"This reads a run by its folder or its name, not by {alone}")
        yield paths, reader


@contextmanager
def open_anywhere(run: str | None) -> "Generator[tuple[RunPaths | None, Reader]]":
    """The run's population, and its paths unless it is named by the URL of a database, or by a file that lies alone,
    such as a backup. `#NAME` behind a URL names one of several runs. Raises UsageError."""
    paths = None
    if run is not None and is_database(run):
        where, name = Path(run), None
    elif run is not None and "://" in run:
        where, _, fragment = run.partition("#")
        name = fragment or None
    else:
        paths = find_run_paths(run)
        where, name = paths.population
    from pace_async.population.reading.reader import open_readonly

    with open_readonly(where, name) as reader:
        yield paths, reader
