"""How two programs differ: a unified diff as lines with their kind. Pure; whoever prints decides on colour.

Invariant: a line's text is visible (`visible`), and the lines applied to the first program give the second, but for
characters that were written out.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from pace_async.changes import Change, changes
from pace_async.report.visible import visible

Kind = Literal["file", "hunk", "same", "removed", "added", "note"]
MOST_STEPS = 20_000_000
"""Of a comparison, for which a person waits: some seconds at most."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the diff, with its sign, without a line end."""

    kind: Kind
    text: str


def difference(a: str, b: str, name_a: str, name_b: str, context: int = 3) -> list[Line]:
    """The lines of a unified diff; none where the programs are equal. A line ends at a newline and nowhere else. Where
    finding the shortest one would take too long, the lines between the first and the last that differ are replaced."""
    lines: list[Line] = []
    for kind, raw in _unified(_lines(a), _lines(b), context):
        if not lines:
            lines += [Line("file", f"--- {visible(name_a)}"), Line("file", f"+++ {visible(name_b)}")]
        lines.append(Line(kind, visible(raw.removesuffix("\n"), keep="\t")))
        if not raw.endswith("\n"):
            lines.append(Line("note", "\\ No newline at end of file"))
    return lines


class _Found(SequenceMatcher[str]):
    """Groups changes that were found already."""

    def __init__(self, found: list[Change]) -> None:
        super().__init__(None, "", "")
        self._found = found

    def get_opcodes(self) -> Any:
        return self._found


def _unified(a: list[str], b: list[str], context: int) -> Iterator[tuple[Kind, str]]:
    for group in _Found(changes(a, b, MOST_STEPS)).get_grouped_opcodes(context):
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
    """As in a diff: the first line, from 1 (the one before where there is none), and how many if not one."""
    count = end - begin
    return f"{begin + 1}" if count == 1 else f"{begin + bool(count)},{count}"


def counted(lines: Sequence[Line]) -> tuple[int, int]:
    """(lines added, lines removed)."""
    return _count(lines, "added"), _count(lines, "removed")


def _count(lines: Iterable[Line], kind: Kind) -> int:
    return sum(line.kind == kind for line in lines)


def _lines(text: str) -> list[str]:
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])
