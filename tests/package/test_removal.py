"""Folders that a program or an agent has filled are removed, whatever it did with them."""

import os
from pathlib import Path

import pytest

from pace_async.removal import remove_tree


@pytest.mark.long
def test_folders_of_any_depth_are_removed(tmp_path: Path) -> None:
    """Deeper than Python's recursion, and than the longest path of the kernel."""
    top = tmp_path / "top"
    top.mkdir()
    at = os.open(top, os.O_RDONLY)
    for _ in range(2500):
        os.mkdir("d", dir_fd=at)
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=at))
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    remove_tree(top)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="modes are changed through /proc (Linux)")
def test_folders_that_may_be_neither_read_nor_written_are_removed(tmp_path: Path) -> None:
    """As root they are removed in any case."""
    inner = tmp_path / "top" / "open" / "shut" / "inner"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    for folder, mode in ((inner, 0), (inner.parent, 0o300), (inner.parent.parent, 0o500)):
        folder.chmod(mode)
    remove_tree(tmp_path / "top")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_removed_through_a_link(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o755)
    (kept / "file").write_text("x")
    (tmp_path / "top" / "folder").mkdir(parents=True)
    for link in ("top/link", "top/folder/link", "instead"):
        (tmp_path / link).symlink_to(kept)
    os.mkfifo(tmp_path / "top" / "pipe")
    remove_tree(tmp_path / "top")
    remove_tree(tmp_path / "instead")
    remove_tree(tmp_path / "never there")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (kept / "file").read_text() == "x"
    assert kept.stat().st_mode & 0o777 == 0o755
