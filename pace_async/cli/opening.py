"""A run that a person named, opened for reading.

Invariant: what is not there is refused before anything heavy is loaded.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pace_async.runtime.places import Places, find_places

if TYPE_CHECKING:
    from pace_async.population.reader import Reader


@contextmanager
def open_run(run: str | None) -> "Generator[tuple[Places, Reader]]":
    """Where it is, and its population. Raises UsageError."""
    places = find_places(run)
    where, name = places.population
    from pace_async.population.reader import open_readonly

    with open_readonly(where, name) as reader:
        yield places, reader
