"""Applies a unified diff to a program of several files, exactly or not at all.

`git apply` does it, in a folder of its own that is removed afterwards. It is chosen because it is all or nothing, takes
no context that differs, knows new, removed and renamed files, and by itself refuses paths that leave the folder or lead
through a link. Line counts are inferred from the lines (`--recount`), because models miscount them. For that each file
needs a line `diff --git`, which is added. There is no repository whose hooks could run.
"""

import os
import re
import tempfile
from pathlib import Path

from pace_async.errors import CandidateFault
from pace_async.programs.fileset import Program
from pace_async.programs.git import GitFailed, git, git_is_there
from pace_async.programs.paths import why_refused
from pace_async.programs.tree import read_tree

_OLD, _NEW = re.compile(r"^--- (\S+)", re.MULTILINE), re.compile(r"^\+\+\+ (\S+)", re.MULTILINE)

_WRITTEN = re.compile(r"^(?:\+\+\+|rename to|copy to) (\S+)", re.MULTILINE)
"""A path that a diff writes to."""


def applied(diff: str, before: Program) -> dict[str, str]:
    """The files of the program after the diff. Raises CandidateFault."""
    if not git_is_there():
        raise CandidateFault("diff_not_applied", "a diff needs Git on the machine of the run: answer with edits")
    with tempfile.TemporaryDirectory(prefix="pace-diff-", ignore_cleanup_errors=True) as scratch:
        folder, patch = Path(scratch) / "program", Path(scratch) / "patch"
        for path, text in before.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(text.encode("utf-8", "replace"))
        patch.write_bytes(_with_heads(diff).encode("utf-8", "replace"))
        strip = "-p1" if _has_prefixes(diff) else "-p0"
        try:
            git(folder, "apply", "--recount", "--whitespace=nowarn", strip, str(patch), isolated=True)
        except GitFailed as failed:
            for path in _WRITTEN.findall(diff):
                if path != os.devnull and (reason := why_refused(path.removeprefix("b/"))):
                    raise CandidateFault("bad_path", reason) from None
            message = str(failed).removeprefix("git apply: ").replace(str(patch), "the diff")
            raise CandidateFault("diff_not_applied", f"the diff does not apply: {message}") from None
        return read_tree(str(folder), lambda _: True)


def _with_heads(diff: str) -> str:
    """The diff with a line `diff --git` before each file that has none."""
    lines, result, has_head = diff.split("\n"), list[str](), False
    for place, line in enumerate(lines):
        if line.startswith("diff --git "):
            has_head = True
        following = lines[place + 1 : place + 3]
        if line.startswith("--- ") and len(following) == 2 and (following[0][:4], following[1][:2]) == ("+++ ", "@@"):
            old, new = (header[4:].partition("\t")[0].strip() for header in (line, following[0]))
            if not has_head:
                result += _head(old, new)
            has_head = False
        result.append(line)
    return "\n".join(result)


def _head(old: str, new: str) -> list[str]:
    if old == os.devnull:
        return [f"diff --git {new.replace('b/', 'a/', 1)} {new}", "new file mode 100644"]
    if new == os.devnull:
        return [f"diff --git {old} {old.replace('a/', 'b/', 1)}", "deleted file mode 100644"]
    return [f"diff --git {old} {new}"]


def _has_prefixes(diff: str) -> bool:
    """Whether its paths begin with a/ and b/."""
    old = [path for path in _OLD.findall(diff) if path != os.devnull]
    new = [path for path in _NEW.findall(diff) if path != os.devnull]
    return all(path.startswith("a/") for path in old) and all(path.startswith("b/") for path in new)
