"""A very small disk: a file system in memory of a megabyte or two, mounted for one test.

Only root can mount. Otherwise the test is skipped and counted.
"""

import contextlib
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, kib: int = 1024) -> Generator[Path]:
    """Mount it at `folder`, with `kib` KiB of room."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "pace-test", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        pytest.skip(f"no small disk can be mounted: {error}")
    if mounted.returncode != 0:
        pytest.skip(f"no small disk can be mounted: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Fill the disk. Remove the returned file to free it."""
    assert folder.is_mount(), "only a small disk of a test's own may be filled"
    file = folder / "filler"
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(4096))
    return file
