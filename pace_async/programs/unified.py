"""Unified diffs of texts, and of programs of several files as a patch that `git apply` takes. Pure.

Lines end only at a newline. The comparison is bounded: if the shortest diff would take too long, all lines between the
first and the last difference are replaced.
"""

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any, Literal

from pace_async.programs.fileset import Program, changed_paths
from pace_async.programs.text import Change, changes

Kind = Literal["file", "hunk", "same", "removed", "added", "note"]
MOST_STEPS = 20_000_000
"""The most work of one comparison: some seconds, because a person waits for it."""
NO_NEWLINE = "\\ No newline at end of file"
NOTHING = "/dev/null"
"""The name of a file that is not there."""


class _GivenChanges(SequenceMatcher[str]):
    """A `SequenceMatcher` with given changes, used for its grouping."""

    def __init__(self, opcodes: list[Change]) -> None:
        super().__init__(None, "", "")
        self._given = opcodes

    def get_opcodes(self) -> Any:
        return self._given


def unified(before: str, after: str, context: int = 3) -> Iterator[tuple[Kind, str]]:
    """The lines of the hunks with their ends, each with its kind. None for equal texts."""
    a, b = _lines(before), _lines(after)
    for group in _GivenChanges(changes(a, b, MOST_STEPS)).get_grouped_opcodes(context):
        (_, first_a, _, first_b, _), (_, _, last_a, _, last_b) = group[0], group[-1]
        yield "hunk", f"@@ -{_range(first_a, last_a)} +{_range(first_b, last_b)} @@\n"
        for change, begin_a, end_a, begin_b, end_b in group:
            if change == "equal":
                yield from _signed("same", " ", a[begin_a:end_a])
            else:
                yield from _signed("removed", "-", a[begin_a:end_a])
                yield from _signed("added", "+", b[begin_b:end_b])


def git_patch(before: Program, after: Program) -> str:
    """What leads from one program of several files to the other, as `git apply` takes it. Empty for equal ones."""
    return "".join(part for path in changed_paths(before, after) for part in _of_file(path, before, after))


def _of_file(path: str, before: Program, after: Program) -> Iterator[str]:
    old, new = before.files.get(path), after.files.get(path)
    yield f"diff --git a/{path} b/{path}\n"
    if old is None:
        yield "new file mode 100644\n"
    if new is None:
        yield "deleted file mode 100644\n"
    ended = "\t" if " " in path else ""  # as Git writes it, so that the name's end is known
    lines = list(unified(old or "", new or ""))
    if lines:
        yield f"--- {NOTHING if old is None else f'a/{path}{ended}'}\n"
        yield f"+++ {NOTHING if new is None else f'b/{path}{ended}'}\n"
    for _, line in lines:
        yield line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}\n"


def _signed(kind: Kind, sign: str, lines: list[str]) -> Iterator[tuple[Kind, str]]:
    for line in lines:
        yield kind, sign + line


def _range(begin: int, end: int) -> str:
    """A range as a diff writes it: the first line, from 1 (the line before if the range is empty), and the count unless
    it is 1."""
    count = end - begin
    return f"{begin + 1}" if count == 1 else f"{begin + bool(count)},{count}"


def _lines(text: str) -> list[str]:
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])
