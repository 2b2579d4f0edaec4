"""A unified diff of two programs, as lines with their kind. Pure: the caller chooses colours.

Invariant: a line's text holds no control characters (`visible`). Applied to the first program the lines give the
second, except for characters shown as escapes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from pace_async.programs.text import Change, changes
from pace_async.report.visible import visible

Kind = Literal["file", "hunk", "same", "removed", "added", "note"]
MOST_STEPS = 20_000_000
"""The most work of one comparison: some seconds, because a person waits for it."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of the diff, with its sign, without a line end."""

    kind: Kind
    text: str


def difference(a: str, b: str, name_a: str, name_b: str, context: int = 3) -> list[DiffLine]:
    """The lines of a unified diff, none if the programs are equal. A line ends only at a newline. If the shortest diff
    would take too long, all lines between the first and the last difference are replaced."""
    lines: list[DiffLine] = []
    for kind, raw in _unified(_lines(a), _lines(b), context):
        if not lines:
            lines += [DiffLine("file", f"--- {visible(name_a)}"), DiffLine("file", f"+++ {visible(name_b)}")]
        lines.append(DiffLine(kind, visible(raw.removesuffix("\n"), keep="\t")))
        if not raw.endswith("\n"):
            lines.append(DiffLine("note", "\\ No newline at end of file"))
    return lines


class _GivenChanges(SequenceMatcher[str]):
    """A `SequenceMatcher` with given changes, used for its grouping."""

    def __init__(self, given: list[Change]) -> None:
        super().__init__(None, "", "")
        self._given = given

    def get_opcodes(self) -> Any:
        return self._given


def _unified(a: list[str], b: list[str], context: int) -> Iterator[tuple[Kind, str]]:
    for group in _GivenChanges(changes(a, b, MOST_STEPS)).get_grouped_opcodes(context):
        (_, first_a, _, first_b, _), (_, _, last_a, _, last_b) = group[0], group[-1]
        yield "hunk", f"@@ -{_range(first_a, last_a)} +{_range(first_b, last_b)} @@\n"
        for change, begin_a, end_a, begin_b, end_b in group:
            if change == "equal":
                yield from _signed("same", " ", a[begin_a:end_a])
            else:
                yield from _signed("removed", "-", a[begin_a:end_a])
                yield from _signed("added", "+", b[begin_b:end_b])


def _signed(kind: Kind, sign: str, lines: list[str]) -> Iterator[tuple[Kind, str]]:
    for line in lines:
        yield kind, sign + line


def _range(begin: int, end: int) -> str:
    """A range as a diff writes it: the first line, from 1 (the line before if the range is empty), and the count unless
    it is 1."""
    count = end - begin
    return f"{begin + 1}" if count == 1 else f"{begin + bool(count)},{count}"


def counted(lines: Sequence[DiffLine]) -> tuple[int, int]:
    """(lines added, lines removed)."""
    return _count(lines, "added"), _count(lines, "removed")


def _count(lines: Iterable[DiffLine], kind: Kind) -> int:
    return sum(line.kind == kind for line in lines)


def _lines(text: str) -> list[str]:
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])
