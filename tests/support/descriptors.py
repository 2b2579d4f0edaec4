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
    """Fails if something that is opened within is open at the end. What was open before may be closed meanwhile."""
    before = open_descriptors()
    yield
    assert {number: end for number, end in open_descriptors().items() if before.get(number) != end} == {}
