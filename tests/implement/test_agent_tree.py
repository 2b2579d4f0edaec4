"""What an agent leaves in its work tree: only plain text files of the folder become the program, whatever it did."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pace_async.errors import CandidateFault
from pace_async.implement.agent_tree import TEXTS, make_tree, program_left_in
from pace_async.programs.tree import MOST_ENTRIES, read_tree

FILES = {"src/a.py": "VALUE = 3\n", "src/b.py": "x = 1\n", "README.md": "hi\n"}
IGNORE = ("build/", "*.log")

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs Git")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "outside.py").write_text("SECRET = 1\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.py").write_text("SECRET = 2\n")
    folder = tmp_path / "agents" / "7"
    make_tree(folder, FILES, {"PROMPT.md": "do it"}, IGNORE)
    return folder


def left(folder: Path) -> dict[str, str]:
    return program_left_in(folder, FILES, IGNORE)


def test_the_folder_is_a_work_tree_of_its_own_with_the_program_committed(tree: Path) -> None:
    said = subprocess.check_output(["git", "status", "--porcelain"], cwd=tree, text=True)
    assert said == ""
    assert (tree / TEXTS / "PROMPT.md").read_text() == "do it"
    assert left(tree) == FILES


def test_edits_new_and_removed_files_are_taken_and_ignored_ones_are_not(tree: Path) -> None:
    (tree / "src" / "a.py").write_text("VALUE = 4\n")
    (tree / "src" / "b.py").unlink()
    (tree / "src" / "new").mkdir()
    (tree / "src" / "new" / "c.py").write_text("y = 1\n")
    (tree / "build").mkdir()
    (tree / "build" / "big.bin").write_bytes(b"\xff" * 100)
    (tree / "run.log").write_text("noise")
    (tree / "src" / "__pycache__").mkdir()
    (tree / "src" / "__pycache__" / "a.pyc").write_bytes(b"\0")
    (tree / ".venv").mkdir()
    (tree / ".venv" / "x.py").write_text("x")
    (tree / ".gitignore").write_text("own/\n")
    (tree / "own").mkdir()
    (tree / "own" / "note.txt").write_text("x")
    subprocess.check_call(["git", "add", "-A"], cwd=tree)
    subprocess.check_call(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "own commit"], cwd=tree)
    assert left(tree) == {"README.md": "hi\n", "src/a.py": "VALUE = 4\n", "src/new/c.py": "y = 1\n"}


def link(tree: Path) -> None:
    (tree / "src" / "a.py").unlink()
    (tree / "src" / "a.py").symlink_to(tree.parent.parent / "outside.py")


def folder_link(tree: Path) -> None:
    shutil.rmtree(tree / "src")
    (tree / "src").symlink_to(tree.parent.parent / "elsewhere")


def hard_link(tree: Path) -> None:
    (tree / "src" / "a.py").unlink()
    (tree / "src" / "a.py").hardlink_to(tree.parent.parent / "outside.py")


def pipe(tree: Path) -> None:
    os.mkfifo(tree / "src" / "pipe")


def sparse(tree: Path) -> None:
    with (tree / "src" / "big.txt").open("wb") as stream:
        stream.truncate(100 << 20)


def many(tree: Path) -> None:
    (tree / "many").mkdir()
    for number in range(MOST_ENTRIES + 1):
        os.close(os.open(tree / "many" / str(number), os.O_CREAT | os.O_WRONLY))


def deep(tree: Path) -> None:
    folder = tree
    for _ in range(40):
        folder /= "d"
    folder.mkdir(parents=True)


def binary(tree: Path) -> None:
    (tree / "src" / "data.bin").write_bytes(b"\xff\xfe\0")


def direction(tree: Path) -> None:
    (tree / "src" / "a\u202eyp.py").write_text("x")


def no_utf8(tree: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tree / "src") + b"/\xff.py"))).write_text("x")


def gone(tree: Path) -> None:
    shutil.rmtree(tree)


def whole_folder_link(tree: Path) -> None:
    shutil.rmtree(tree)
    tree.symlink_to(tree.parent.parent / "elsewhere")


@pytest.mark.long
@pytest.mark.parametrize(
    ("attack", "said"),
    [
        (link, "'src/a.py' is a link"),
        (folder_link, "'src' is a link"),
        (hard_link, "'src/a.py' is a second name of another file"),
        (pipe, "'src/pipe' is a pipe"),
        (sparse, "'src/big.txt' has 104857600 bytes"),
        (many, f"more than {MOST_ENTRIES} names"),
        (deep, "deeper than 32 folders"),
        (binary, "'src/data.bin' is not UTF-8 text"),
        (direction, "cannot be printed"),
        (no_utf8, "not a name in UTF-8"),
        (gone, "the folder of the program is gone"),
        (whole_folder_link, "the folder of the program is gone"),
    ],
)
def test_an_attack_ends_in_one_sentence_and_nothing_outside_is_read(
    tree: Path, attack: Callable[[Path], None], said: str
) -> None:
    attack(tree)
    with pytest.raises(CandidateFault) as raised:
        left(tree)
    assert said in raised.value.detail
    assert "SECRET" not in raised.value.detail


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_not_read(tree: Path) -> None:
    os.mknod(tree / "src" / "zero.py", 0o600 | 0o020000, os.makedev(1, 5))
    with pytest.raises(CandidateFault, match="is a device"):
        left(tree)


def test_a_file_that_is_swapped_for_a_link_while_it_is_read_is_refused(tree: Path) -> None:
    def swap(path: str) -> bool:
        if path == "src/a.py":
            link(tree)
        return True

    with pytest.raises(CandidateFault, match=r"'src/a\.py' is a link"):
        read_tree(str(tree), swap)


def test_a_folder_that_is_swapped_while_it_is_read_still_gives_its_own_files(tree: Path) -> None:
    def swap(path: str) -> bool:
        if path == "src/a.py":
            (tree / "src").rename(tree / "kept")
            (tree / "src").symlink_to(tree.parent.parent / "elsewhere")
        return True

    assert read_tree(str(tree), swap)["src/a.py"] == FILES["src/a.py"]


def test_hooks_and_configuration_of_the_agent_are_never_run(tree: Path) -> None:
    marker = tree.parent / "ran"
    hook = tree / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    with (tree / ".git" / "config").open("a") as config:
        config.write(f"[core]\n\tfsmonitor = touch {marker}\n\thooksPath = {hook.parent}\n")
    (tree / ".gitattributes").write_text("* filter=evil\n")
    (tree / "src" / "new.py").write_text("y = 1\n")
    assert left(tree)["src/new.py"] == "y = 1\n"
    assert not marker.exists()


def test_a_second_try_finds_a_fresh_folder_and_writes_through_no_link(tree: Path) -> None:
    folder_link(tree)
    make_tree(tree, FILES, {"PROMPT.md": "again"}, IGNORE)
    assert left(tree) == FILES
    assert (tree.parent.parent / "elsewhere" / "a.py").read_text() == "SECRET = 2\n"
