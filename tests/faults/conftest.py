"""Shared by the tests of faults."""

import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.fixture
def memory() -> Generator[Path]:
    """A folder on a file system in memory where there is one: what a killed process has written there stays, too."""
    folder = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="pace-tests-", dir=folder) as made:
        yield Path(made)
