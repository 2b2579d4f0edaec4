"""The folder of an agent that changes a program of several files: a Git work tree of its own.

The program's files stand where they stand in the program, committed once, so that the agent's own `git diff` works. The
texts for the agent stand in `.pace`. Nothing of `.git` is read afterwards: what the agent commits, and what it writes
into the configuration or the hooks, has no effect. Files that the task's `ignore` or a `.gitignore` of the folder
matches, and names that begin with a dot, never become the program.
"""

import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pace_async.errors import InfrastructureFault
from pace_async.programs.git import GitFailed, git
from pace_async.programs.tree import names_below, read_tree
from pace_async.removal import remove_tree

TEXTS = ".pace"
"""The folder of the texts."""
_AUTHOR = ("-c", "user.name=pace", "-c", "user.email=pace@localhost", "-c", "commit.gpgsign=false")


def make_tree(folder: Path, program: Mapping[str, str], texts: Mapping[str, str], ignore: Sequence[str]) -> None:
    """A fresh work tree with the program's files, committed, and with the texts. Raises OSError, and
    InfrastructureFault if Git fails."""
    remove_tree(folder)
    for name, text in {**program, **{f"{TEXTS}/{name}": text for name, text in texts.items()}}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode("utf-8", "replace"))
    _git(folder, "init", "-q", "--template=")
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "exclude").write_text("\n".join([f"/{TEXTS}/", *ignore, ""]), encoding="utf-8")
    _git(folder, "--literal-pathspecs", "add", "-A", "-f", "--", *sorted({name.partition("/")[0] for name in program}))
    _git(folder, *_AUTHOR, "commit", "-q", "-m", "The program to change")


def program_left_in(folder: Path, known: Collection[str], ignore: Sequence[str]) -> dict[str, str]:
    """The files that the agent left: those `known` before, and new ones that nothing ignores. Raises CandidateFault, as
    `read_tree`, and InfrastructureFault if Git fails."""
    new = [path for path in names_below(str(folder)) if path not in known]
    ignored = _ignored(folder, new, ignore) if new else frozenset[str]()
    return read_tree(str(folder), lambda path: path not in ignored)


def _ignored(folder: Path, paths: Sequence[str], ignore: Sequence[str]) -> frozenset[str]:
    """The paths that are ignored. The repository that is asked is a new one, beside the agent's."""
    with tempfile.TemporaryDirectory(prefix="pace-ignored-", ignore_cleanup_errors=True) as scratch:
        place = Path(scratch) / "repository"
        _git(Path(scratch), "init", "-q", "--bare", "--template=", str(place))
        (place / "info").mkdir(exist_ok=True)
        (place / "info" / "exclude").write_text("\n".join([*ignore, ""]), encoding="utf-8")
        stdin = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
        command = (f"--git-dir={place}", f"--work-tree={folder}", "check-ignore", "-z", "--stdin", "--no-index")
        output = _git(folder, *command, given=stdin, allowed=(0, 1))
    return frozenset(output.decode("utf-8", "surrogateescape").split("\0")) - {""}


def _git(folder: Path, *words: str, given: bytes = b"", allowed: Sequence[int] = (0,)) -> bytes:
    try:
        return git(folder, *words, given=given, isolated=True, allowed=allowed)
    except GitFailed as failed:
        raise InfrastructureFault("git_failed", str(failed)) from None
