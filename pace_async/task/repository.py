"""A Git repository at a commit as the files of a task, and a commit of the best program in a branch.

Only objects are read, and for a branch written: nothing looks at the user's checkout, its index or its filters, and
nothing changes there. Left out are links, submodules, and names that a program may not have, such as those that begin
with a dot. Each is named.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pace_async.errors import UsageError
from pace_async.programs.fileset import Program, changed_paths
from pace_async.programs.git import GitFailed, git
from pace_async.programs.paths import why_not_together, why_refused

FILE, EXECUTABLE, LINK = "100644", "100755", "120000"
IGNORE = ".gitignore"
MOST_TRACKED = 50_000
"""Files of a commit."""
BATCH = 500
"""Files that are read at once."""
_NO_HOOKS = ("-c", "core.hooksPath=/dev/null")


@dataclass(frozen=True, slots=True)
class TrackedFile:
    """A file of a commit: its mode and its blob."""

    path: str
    mode: str
    blob: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A commit. `files` can be part of a program, `left_out` says why the others cannot. `ignore` has the lines of its
    .gitignore."""

    repository: Path
    revision: str
    files: tuple[TrackedFile, ...]
    left_out: tuple[str, ...]
    ignore: tuple[str, ...]


def snapshot_of(repository: Path, revision: str = "HEAD") -> Snapshot:
    """The commit that a revision names. Raises UsageError."""
    try:
        root = Path(git(repository, "rev-parse", "--show-toplevel").decode().rstrip("\n"))
        commit = git(root, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").decode().strip()
        listed = git(root, "ls-tree", "-r", "-z", "--full-tree", commit)
        files, left_out, ignore = list[TrackedFile](), list[str](), ""
        for file in _files_in(listed):
            if file.path == IGNORE and file.mode in (FILE, EXECUTABLE):
                ignore = git(root, "cat-file", "blob", file.blob).decode("utf-8", "replace")
            if reason := _why_left_out(file):
                left_out.append(reason)
            else:
                files.append(file)
    except GitFailed as failed:
        raise UsageError(f"{repository} is no repository that Git reads at {revision!r} ({failed}).") from None
    if reason := why_not_together((file.path for file in files), MOST_TRACKED):
        raise UsageError(f"{root} at {commit[:12]}: {reason}.")
    lines = tuple(line.rstrip() for line in ignore.splitlines() if line.strip() and not line.startswith("#"))
    return Snapshot(root, commit, tuple(files), tuple(left_out), lines)


def write_snapshot(snapshot: Snapshot, folder: Path) -> None:
    """Write its files below a new folder, as they are in the repository. Raises UsageError, and OSError."""
    for file, content in zip(snapshot.files, _contents(snapshot), strict=True):
        target = folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(0o755 if file.mode == EXECUTABLE else 0o644)


def make_branch(repository: Path, commit: str, name: str, seed: str, best: str, message: str) -> str:
    """A new branch with one commit on top of `commit`, which leads from the seed program to the best one. Returns the
    new commit. Neither the checkout nor its index is touched. Raises UsageError, also for a branch that is there."""
    before, after = Program.of(seed), Program.of(best)
    try:
        git(repository, "check-ref-format", "--branch", name)
        modes = {
            file.path: file.mode for file in _files_in(git(repository, "ls-tree", "-r", "-z", "--full-tree", commit))
        }
        with tempfile.TemporaryDirectory(prefix="pace-index-") as scratch:
            index = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
            git(repository, "read-tree", commit, variables=index)
            for path in changed_paths(before, after):
                if path not in after.files:
                    git(repository, "update-index", "--force-remove", "--", path, variables=index)
                    continue
                content = after.files[path].encode()
                blob = git(repository, "hash-object", "-w", "--stdin", given=content).decode().strip()
                entry = f"{modes.get(path, FILE)},{blob},{path}"
                git(repository, "update-index", "--add", "--cacheinfo", entry, variables=index)
            tree = git(repository, "write-tree", variables=index).decode().strip()
        new_commit = git(repository, "commit-tree", tree, "-p", commit, given=message.encode()).decode().strip()
        git(repository, *_NO_HOOKS, "update-ref", f"refs/heads/{name}", new_commit, "0" * len(new_commit))
    except GitFailed as failed:
        raise UsageError(f"The branch {name!r} cannot be made in {repository} ({failed}).") from None
    return new_commit


def _files_in(listed: bytes) -> Iterator[TrackedFile]:
    for entry in listed.split(b"\0"):
        if entry:
            head, _, path = entry.partition(b"\t")
            mode, _, blob = head.decode().split(" ")
            yield TrackedFile(path.decode("utf-8", "surrogateescape"), mode, blob)


def _why_left_out(file: TrackedFile) -> str:
    if reason := why_refused(file.path):
        return reason
    if file.mode not in (FILE, EXECUTABLE):
        return f"{file.path!r} is a {'link' if file.mode == LINK else 'submodule'}"
    return ""


def _contents(snapshot: Snapshot) -> Iterator[bytes]:
    """The content of each file, in order."""
    for first in range(0, len(snapshot.files), BATCH):
        batch = snapshot.files[first : first + BATCH]
        request = "".join(f"{file.blob}\n" for file in batch).encode()
        try:
            reply = git(snapshot.repository, "cat-file", "--batch", given=request)
        except GitFailed as failed:
            raise UsageError(f"{snapshot.repository} cannot be read ({failed}).") from None
        at = 0
        for file in batch:
            end = reply.index(b"\n", at)
            fields = reply[at:end].decode().split(" ")
            if len(fields) != 3 or fields[1] != "blob":
                where = f"{file.path!r} at {snapshot.revision[:12]}"
                raise UsageError(f"{snapshot.repository} lacks the content of {where}.")
            size = int(fields[2])
            yield reply[end + 1 : end + 1 + size]
            at = end + 2 + size
