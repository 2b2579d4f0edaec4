"""A file is written whole or stays as it was, and a failure of the disk has a name."""

import errno
import os
from pathlib import Path

import pytest

from pace_async.cli.main import main
from pace_async.durable import DISK_FAULTS, DISK_REMEDIES, disk_fault, write_whole
from pace_async.errors import GaveUp, InfrastructureFault
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


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.ENOSPC, "the disk is full (best.py: No space left on device): nothing more was written; make room and"),
        (errno.EDQUOT, "the disk is full (best.py: Disk quota exceeded): nothing more was written; make room and"),
        (errno.EROFS, "the disk is read-only (best.py: Read-only file system): nothing more was written; make it"),
        (errno.EIO, "the disk fails (best.py: Input/output error): nothing more was written; the system's log says"),
    ],
)
def test_a_command_that_a_disk_ends_says_what_happened_and_what_to_do(
    code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(**_: object) -> None:
        raise OSError(code, os.strerror(code), "best.py")

    monkeypatch.setattr("pace_async.cli.main.app", fails)
    with pytest.raises(SystemExit) as ended:
        main()
    line = capsys.readouterr().err
    assert line.startswith(f"pace: {said}") and line.endswith(".\n") and line.count("\n") == 1
    assert ended.value.code == GaveUp.exit_code == 6


def test_another_failure_to_write_is_no_disk_s_and_not_explained_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "best.py")

    monkeypatch.setattr("pace_async.cli.main.app", fails)
    with pytest.raises(PermissionError):
        main()


def test_every_kind_of_disk_fault_with_one_cause_has_a_remedy() -> None:
    assert DISK_REMEDIES.keys() == DISK_FAULTS.keys() - {"cannot_write"}
