"""Which files this process has open, so that a test can say that it leaves none behind."""

import gc
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path


def open_descriptors() -> dict[int, str]:
    """What each open descriptor leads to. What only a reference cycle keeps open is closed first, because the collector
    would close it at some moment: an event loop of an earlier test is such a cycle."""
    gc.collect()
    found: dict[int, str] = {}
    for entry in list(Path("/proc/self/fd").iterdir()):
        with suppress(FileNotFoundError):  # the folder's own descriptor, which is closed by now
            found[int(entry.name)] = str(entry.readlink())
    return found


@contextmanager
def no_descriptor_left() -> Generator[None]:
    """Fails if more is open at the end than at the beginning. A pool may have others than before, but not more."""
    before = open_descriptors()
    yield
    after = open_descriptors()
    opened = {number: end for number, end in after.items() if before.get(number) != end}
    assert len(after) <= len(before), f"of these, some are left: {opened}"
