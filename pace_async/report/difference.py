"""How two programs differ: a unified diff as lines with their kind. Pure; whoever prints decides on colour.

Invariant: a line's text is visible (`visible`), and the lines applied to the first program give the second, but for
characters that were written out.
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pace_async.report.visible import visible

Kind = Literal["file", "hunk", "same", "removed", "added", "note"]
_KINDS: dict[str, Kind] = {"@": "hunk", " ": "same", "-": "removed", "+": "added"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the diff, with its sign, without a line end."""

    kind: Kind
    text: str


def difference(a: str, b: str, name_a: str, name_b: str, context: int = 3) -> list[Line]:
    """The lines of a unified diff; none where the programs are equal. A line ends at a newline and nowhere else."""
    lines: list[Line] = []
    for number, raw in enumerate(difflib.unified_diff(_lines(a), _lines(b), name_a, name_b, n=context, lineterm="\n")):
        kind: Kind = "file" if number < 2 else _KINDS[raw[0]]
        lines.append(Line(kind, visible(raw.removesuffix("\n"), keep="\t")))
        if not raw.endswith("\n"):
            lines.append(Line("note", "\\ No newline at end of file"))
    return lines


def counted(lines: Sequence[Line]) -> tuple[int, int]:
    """(lines added, lines removed)."""
    return _count(lines, "added"), _count(lines, "removed")


def _count(lines: Iterable[Line], kind: Kind) -> int:
    return sum(line.kind == kind for line in lines)


def _lines(text: str) -> list[str]:
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])
