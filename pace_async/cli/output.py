"""How commands print: JSON for programs, aligned plain lines for people."""

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import typer

from pace_async.cli.completing import run_names
from pace_async.outside import printable

JSON_OPTION = typer.Option(False, "--json", help="Print JSON for programs.")
RUN_ARGUMENT = typer.Argument(
    None,
    help="Run folder, its name under ./runs, or a task's name for its latest run; by default the latest of all.",
    metavar="RUN",
    autocompletion=run_names,
)


NARROWEST = 8
"""Characters that every cell may have, however narrow the terminal is."""
_GAP = "  "
_ODD = re.compile(r"[^\x20-\x7e\n]")


def tell(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text for a person. Nothing in it, such as a name of a file, steers the terminal."""
    typer.echo(printable(text), err=err, nl=nl)


def print_json(value: object) -> None:
    """One JSON document."""
    typer.echo(json_text(value))


def json_text(value: object) -> str:
    """JSON with every character that a terminal may not show written as an escape."""
    text = json.dumps(value, ensure_ascii=False, default=str, allow_nan=False)
    return _ODD.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)


def colours(stream: TextIO | None = None) -> bool:
    """Whether the output may have colours: the terminal shows them and the user has not switched them off."""
    to = stream or sys.stdout
    return to.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_fields(values: Mapping[str, object]) -> None:
    """Names and values, one a line, aligned."""
    width = max((len(name) for name in values), default=0)
    for name, value in values.items():
        typer.echo(f"{name:<{width}}  {shown(value)}")


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows under their column names. On a terminal the widest cells are cut so that a row fits on its line."""
    if not rows:
        typer.echo("no rows")
        return
    columns = list(rows[0])
    cells = [[shown(row[column]) for column in columns] for row in rows]
    widths = [max(len(columns[i]), *(len(line[i]) for line in cells)) for i in range(len(columns))]
    if sys.stdout.isatty():
        widths = fitting(widths, shutil.get_terminal_size().columns)
    for line in (columns, *cells):
        typer.echo(_GAP.join(_cut(cell, width).ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def fitting(widths: Sequence[int], room: int) -> list[int]:
    """The widths of columns of which a row has at most `room` characters: the widest are cut to one width, but none
    below NARROWEST."""
    room -= len(_GAP) * (len(widths) - 1)
    cap = min(max(widths, default=0), max(room, NARROWEST))
    while cap > NARROWEST and sum(min(width, cap) for width in widths) > room:
        cap -= 1
    return [min(width, cap) for width in widths]


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else f"{cell[: width - 1]}…"


_LARGE = 1e6


def shown(value: object) -> str:
    """A value as one printable line."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < _LARGE else f"{value:.12g}"  # such as a time
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return printable(" ".join(str(value).split()))


def indented(text: str, by: int = 4) -> str:
    """Lines of foreign text after `by` spaces, without control characters."""
    return "\n".join(f"{'':{by}}{shown_line(line)}" for line in text.splitlines())


def shown_line(line: str) -> str:
    """One line of foreign text with its spacing, without control characters."""
    return printable(line.expandtabs(4)).rstrip()
