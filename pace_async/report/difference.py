"""A unified diff of two programs, as lines with their kind. Pure: the caller chooses colours.

Invariant: a line's text holds no control characters (`visible`). Applied to the first program the lines give the
second, except for characters shown as escapes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pace_async.programs.fileset import Program, changed_paths
from pace_async.programs.unified import NO_NEWLINE, NOTHING, Kind, unified
from pace_async.report.visible import visible


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of the diff, with its sign, without a line end."""

    kind: Kind
    text: str


def difference(a: str, b: str, name_a: str, name_b: str, context: int = 3) -> list[DiffLine]:
    """The lines of a unified diff, none if the programs are equal. Of programs of several files that of each file that
    differs, with its path after the program's name."""
    before, after = Program.of(a), Program.of(b)
    if not before.is_set and not after.is_set:
        return _of_texts(a, b, name_a, name_b, context)
    lines: list[DiffLine] = []
    for path in changed_paths(before, after):
        old = f"{name_a}: {path}" if path in before.files else NOTHING
        new = f"{name_b}: {path}" if path in after.files else NOTHING
        file_lines = _of_texts(before.files.get(path, ""), after.files.get(path, ""), old, new, context)
        lines += file_lines or [DiffLine("file", f"--- {visible(old)}"), DiffLine("file", f"+++ {visible(new)}")]
    return lines


def _of_texts(a: str, b: str, name_a: str, name_b: str, context: int) -> list[DiffLine]:
    lines: list[DiffLine] = []
    for kind, raw in unified(a, b, context):
        if not lines:
            lines += [DiffLine("file", f"--- {visible(name_a)}"), DiffLine("file", f"+++ {visible(name_b)}")]
        lines.append(DiffLine(kind, visible(raw.removesuffix("\n"), keep="\t")))
        if not raw.endswith("\n"):
            lines.append(DiffLine("note", NO_NEWLINE))
    return lines


def count_changes(lines: Sequence[DiffLine]) -> tuple[int, int]:
    """(lines added, lines removed)."""
    return _count(lines, "added"), _count(lines, "removed")


def _count(lines: Iterable[DiffLine], kind: Kind) -> int:
    return sum(line.kind == kind for line in lines)
