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
from pace_async.observe.columns import on_one_line, table_lines
from pace_async.outside import printable

JSON_OPTION = typer.Option(False, "--json", help="Print JSON for programs.")
RUN_ARGUMENT = typer.Argument(
    None,
    help="Run folder, its name under ./runs, or a task's name for its latest run; by default the latest of all.",
    metavar="RUN",
    autocompletion=run_names,
)
NAMED_RUN = typer.Argument(..., help="Run folder, or its name under ./runs.", autocompletion=run_names, metavar="RUN")
"""For what changes a run: none is guessed."""

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
    return _ODD.sub(lambda match: match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1], text)


def colours(stream: TextIO | None = None) -> bool:
    """Whether the output may have colours: the terminal shows them and the user has not switched them off."""
    to = stream or sys.stdout
    return to.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_fields(values: Mapping[str, object]) -> None:
    """Names and values, one a line, aligned."""
    width = max((len(name) for name in values), default=0)
    for name, value in values.items():
        typer.echo(f"{name:<{width}}  {on_one_line(value)}")


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows under their column names. On a terminal the widest cells are cut so that a row fits on its line."""
    for line in table_lines(rows, terminal_width()) or ["no rows"]:
        typer.echo(line)


def terminal_width() -> int | None:
    """Characters of a line of the terminal, None if the output is not one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
