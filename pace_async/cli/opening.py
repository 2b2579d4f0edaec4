"""Opens a run named on the command line, for reading.

Invariant: a missing run is refused before anything heavy is loaded.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pace_async.runtime.run_paths import RunPaths, find_run_paths

if TYPE_CHECKING:
    from pace_async.population.reading.reader import Reader


@contextmanager
def open_run(run: str | None) -> "Generator[tuple[RunPaths, Reader]]":
    """The run's paths and its population. Raises UsageError."""
    paths = find_run_paths(run)
    where, name = paths.population
    from pace_async.population.reading.reader import open_readonly

    with open_readonly(where, name) as reader:
        yield paths, reader
