"""A Git repository as a task, its best program as a patch and as a branch. The checkout stays as it was."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pace_async.errors import UsageError
from pace_async.interface.repository_task import make_repository_task
from pace_async.programs.fileset import Program
from pace_async.programs.unified import git_patch
from pace_async.task import load_task
from pace_async.task.repository import make_branch, snapshot_of, write_snapshot

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs Git")
AUTHOR = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def git(repository: Path, *words: str, given: str = "") -> str:
    return subprocess.check_output(
        ["git", *words], cwd=repository, input=given, text=True, env={**os.environ, **AUTHOR}
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, a dirty checkout, and a file that is ignored."""
    folder = tmp_path / "own"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "src" / "a.py").write_text("VALUE = 3\n")
    (folder / "src" / "deep" / "b c.py").write_text("x = 1")
    (folder / "src" / "run.sh").write_text("echo 1\n")
    (folder / "src" / "run.sh").chmod(0o755)
    (folder / "src" / "old.py").write_text("y = 1\n")
    (folder / "src" / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    (folder / "data.bin").write_bytes(b"\xff\0")
    (folder / "link").symlink_to("/etc/passwd")
    (folder / ".gitignore").write_text("# own\nbuild/\n")
    (folder / "tests" / "test_a.py").write_text("from src.a import VALUE\n\n\ndef test_it():\n    assert VALUE > 1\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    (folder / "src" / "a.py").write_text("VALUE = 99  # not committed\n")
    (folder / "build").mkdir()
    (folder / "build" / "x.py").write_text("z")
    (folder / "untracked.py").write_text("u")
    return folder


def state_of(repository: Path) -> tuple[str, str, bytes]:
    index = (repository / ".git" / "index").read_bytes()
    return git(repository, "status", "--porcelain"), git(repository, "rev-parse", "HEAD"), index


def test_the_files_are_those_of_the_commit_and_the_rest_is_named(repository: Path, tmp_path: Path) -> None:
    found = snapshot_of(repository)
    write_snapshot(found, tmp_path / "files")
    made = sorted(path.relative_to(tmp_path / "files").as_posix() for path in (tmp_path / "files").rglob("*.*"))
    assert made == [
        *("data.bin", "src/a.py", "src/crlf.txt", "src/deep/b c.py", "src/old.py", "src/run.sh", "tests/test_a.py")
    ]
    assert (tmp_path / "files" / "src" / "a.py").read_text() == "VALUE = 3\n"
    assert os.access(tmp_path / "files" / "src" / "run.sh", os.X_OK)
    assert found.ignore == ("build/",)
    assert [why.partition("' ")[0] for why in found.left_out] == ["'.gitignore", "'link"]


def test_a_hostile_tree_leads_nowhere(repository: Path, tmp_path: Path) -> None:
    blob = git(repository, "hash-object", "-w", "--stdin", given="evil").strip()
    inner = git(repository, "mktree", given=f"100644 blob {blob}\tevil.py\n").strip()
    tree = git(repository, "mktree", given=f"040000 tree {inner}\t..\n100644 blob {blob}\ta\\b.py\n").strip()
    commit = git(repository, "commit-tree", tree, "-m", "evil").strip()
    found = snapshot_of(repository, commit)
    write_snapshot(found, tmp_path / "one" / "files")
    assert found.files == ()
    assert any("leaves the program's folder" in why for why in found.left_out)
    assert not (tmp_path / "one" / "evil.py").exists()


def test_a_folder_that_is_no_repository_and_a_revision_that_is_none_are_refused(
    repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "plain").mkdir()
    for place, revision in ((tmp_path / "plain", "HEAD"), (repository, "no-such"), (repository, "--all")):
        with pytest.raises(UsageError, match="is no repository that Git reads"):
            snapshot_of(place, revision)


def changed(files: dict[str, str]) -> dict[str, str]:
    made = {
        **files,
        "src/a.py": "VALUE = 4\n",
        "src/deep/b c.py": "x = 2",
        "src/empty.py": "",
        "src/new d.py": "n = 1\n",
    }
    made["src/run.sh"] = "echo 2\n"
    made["src/crlf.txt"] = "one\r\nthree\r\n"
    del made["src/old.py"]
    return made


SEED = {
    "src/a.py": "VALUE = 3\n",
    "src/deep/b c.py": "x = 1",
    "src/run.sh": "echo 1\n",
    "src/old.py": "y = 1\n",
    "src/crlf.txt": "one\r\ntwo\r\n",
}


def test_a_patch_is_what_git_apply_takes(repository: Path, tmp_path: Path) -> None:
    before, after = Program.of_files(SEED), Program.of_files(changed(SEED))
    git(repository, "stash", "-q")
    patch = git_patch(before, after).encode()
    subprocess.run(["git", "apply", "-"], cwd=repository, input=patch, env={**os.environ, **AUTHOR}, check=True)
    for path, text in after.files.items():
        assert (repository / path).read_bytes() == text.encode(), path
    assert not (repository / "src" / "old.py").exists()
    assert git_patch(after, after) == ""


def test_a_branch_has_the_best_program_and_no_checkout_is_touched(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in AUTHOR.items():
        monkeypatch.setenv(name, value)
    was, commit = state_of(repository), git(repository, "rev-parse", "HEAD").strip()
    before, after = Program.of_files(SEED), Program.of_files(changed(SEED))
    made = make_branch(repository, commit, "best", before.text, after.text, "The best\n")
    assert state_of(repository) == was
    assert git(repository, "rev-parse", "best").strip() == made
    assert git(repository, "rev-parse", "best~1").strip() == commit
    for path, text in after.files.items():
        shown = subprocess.check_output(["git", "show", f"best:{path}"], cwd=repository)
        assert shown == text.encode(), path
    assert "100755" in git(repository, "ls-tree", "best", "src/run.sh")
    names = git(repository, "diff", "--name-only", commit, "best").splitlines()
    assert "tests/test_a.py" not in names
    assert "src/old.py" in names
    for taken in ("best", "main", "-x", "a..b"):
        with pytest.raises(UsageError, match="cannot be made"):
            make_branch(repository, commit, taken, before.text, after.text, "again\n")


def test_a_repository_with_its_tests_becomes_a_task(repository: Path, tmp_path: Path) -> None:
    was = state_of(repository)
    made = make_repository_task("own", repository, tmp_path / "task", "pytest -q", "maximize", change=["src/**"])
    assert state_of(repository) == was
    task = load_task(str(made.folder))
    assert made.score == 1.0
    assert task.spec.revision == made.revision
    assert task.spec.may_change("src/new.py")
    assert not task.spec.may_change("tests/test_a.py")
    assert list(Program.of(task.program).files) == [
        *("src/a.py", "src/crlf.txt", "src/deep/b c.py", "src/old.py", "src/run.sh", "tests/test_a.py")
    ]
