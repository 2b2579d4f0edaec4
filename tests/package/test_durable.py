"""A file is written whole or stays as it was, and a failure of the disk has a name."""

import errno
from pathlib import Path

import pytest

from pace_async.durable import disk_fault, write_whole
from pace_async.errors import InfrastructureFault
from pace_async.replay.groupfile import group_path, read_digested, write_group
from pace_async.weights import write_atomically
from tests.support.learn_toys import random_group
from tests.support.small_disk import fill, small_disk


def test_a_written_file_replaces_the_old_one_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "best.py"
    write_whole(path, "first")
    write_whole(path, "é")
    assert path.read_bytes() == "é".encode()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.fault("Disk, everywhere", "no space for a group file: nothing half written, and named")
def test_on_a_full_disk_a_file_stays_as_it_was_and_nothing_temporary_is_left(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        path = disk / "best.py"
        write_whole(path, "before")
        group = group_path(disk, 1)
        write_group(group, random_group(vocab=40, seed=1))
        known = read_digested(group)
        filler = fill(disk)
        with pytest.raises(InfrastructureFault, match=r"disk_full: .*best\.py: No space left on device"):
            write_whole(path, "x" * 10_000)
        with pytest.raises(InfrastructureFault, match="disk_full"):
            write_group(group, random_group(vocab=40, seed=2, rollouts=64))
        assert path.read_text() == "before"
        assert read_digested(group) == known
        assert {file.name for file in disk.iterdir()} == {"best.py", group.name, "filler"}
        filler.unlink()
        write_whole(path, "x" * 10_000)


@pytest.mark.fault("Disk, everywhere", "no space for a checkpoint: nothing half written stays")
def test_on_a_full_disk_no_half_of_a_checkpoint_stays(tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        (folder / "weights").write_bytes(bytes(4 << 20))

    with small_disk(tmp_path / "disk") as disk:
        with pytest.raises(OSError, match="No space left"):
            write_atomically(disk / "000001", write)
        assert list(disk.iterdir()) == []


def test_each_failure_of_a_disk_has_its_kind(tmp_path: Path) -> None:
    kinds = {
        errno.ENOSPC: "disk_full",
        errno.EROFS: "disk_read_only",
        errno.EIO: "disk_broken",
        errno.EPERM: "cannot_write",
    }
    assert {code: disk_fault(OSError(code, "why"), tmp_path).kind for code in kinds} == kinds
    with pytest.raises(InfrastructureFault, match=r"cannot_write: .*gone"):
        write_whole(tmp_path / "gone" / "file", "")
