"""A table as lines of text. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any
from unicodedata import combining, east_asian_width

from pace_async.outside import printable

NARROWEST = 8
"""Characters that every cell may have, however narrow the terminal is."""
_GAP = "  "
_LARGE = 1e6


def table_lines(rows: Sequence[Mapping[str, Any]], room: int | None = None) -> list[str]:
    """Rows under the names of the first row's columns, none without a row. The widest cells are cut so that a row has
    at most `room` columns of the terminal."""
    if not rows:
        return []
    columns = list(rows[0])
    cells = [[on_one_line(row[column]) for column in columns] for row in rows]
    widths = [max(cells_of(columns[i]), *(cells_of(line[i]) for line in cells)) for i in range(len(columns))]
    if room is not None:
        widths = fitting(widths, room)
    return [
        _GAP.join(_cut(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (columns, *cells)
    ]


def fitting(widths: Sequence[int], room: int) -> list[int]:
    """The widths of columns of which a row has at most `room` characters: the widest are cut to one width, but none
    below NARROWEST."""
    room -= len(_GAP) * (len(widths) - 1)
    cap = min(max(widths, default=0), max(room, NARROWEST))
    while cap > NARROWEST and sum(min(width, cap) for width in widths) > room:
        cap -= 1
    return [min(width, cap) for width in widths]


def cells_of(text: str) -> int:
    """Columns of a terminal that a text takes: East Asian characters two, combining ones none. Not `rich`, which a
    command that is refused at once does not load."""
    return sum(0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1 for character in text)


def _cut(cell: str, width: int) -> str:
    """The cell in exactly `width` columns."""
    if cells_of(cell) <= width:
        return cell + " " * (width - cells_of(cell))
    while cells_of(cell) > width - 1:
        cell = cell[:-1]
    return f"{cell}…" + " " * (width - 1 - cells_of(cell))


def on_one_line(value: object) -> str:
    """A value as one printable line."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < _LARGE else f"{value:.12g}"  # such as a time
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return printable(" ".join(str(value).split()))
