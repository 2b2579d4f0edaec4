"""Writes rows as CSV, JSON lines, one JSON list or Parquet, and programs as files, one at a time for any length of run.

Invariant: nothing is overwritten without `force`, and a file appears under its name only when it is complete. A text is
written unchanged in JSON. In CSV one that a spreadsheet would take for a formula gets an apostrophe in front. Only for
a terminal is text escaped. CSV: a header line, NULL as an empty cell, quoted as in RFC 4180. Times are seconds since
the epoch.
"""

import json
import os
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TextIO

from pace_async.errors import UsageError
from pace_async.installing import install_line, missing
from pace_async.population.reading.stream import Kind
from pace_async.programs.fileset import Program
from pace_async.report.parquet import write_parquet
from pace_async.report.visible import visible

Format = Literal["csv", "jsonl", "json"]
_FORMULA = ("=", "+", "-", "@")
Rows = Iterable[Mapping[str, Any]]


def print_rows(rows: Rows, form: Format) -> None:
    """Write rows to standard output."""
    terminal = sys.stdout.isatty()
    _write(rows, form, sys.stdout, safe=terminal)
    sys.stdout.flush()


def write_rows(rows: Rows, form: Format, target: Path, *, force: bool) -> int:
    """Write rows to a file. Returns their number. Raises UsageError if the file exists or cannot be written."""
    with draft_of(target, force=force) as draft, draft.open("x", encoding="utf-8", newline="") as stream:
        return _write(rows, form, stream)


def write_rows_as_parquet(rows: Rows, kind: Kind, target: Path, *, force: bool) -> int:
    """Write rows of one kind to a Parquet file. Returns their number. Raises UsageError as `write_rows` does,
    and without pyarrow."""
    if missing("parquet"):
        raise UsageError(f"Parquet needs pyarrow, which is not installed: {install_line('parquet')}.")
    with draft_of(target, force=force) as draft, draft.open("xb") as stream:
        return write_parquet(rows, kind, stream)


@contextmanager
def draft_of(target: Path, *, force: bool, what: str = "") -> Generator[Path]:
    """A file to write, which becomes the target when it is complete. Raises UsageError for a target that is there,
    unless with `force`, and for one that cannot be written. `what` says more of the one that is there."""
    if target.exists() and not force:
        raise UsageError(f"{target} is there already{what}: name another file, or add --force.")
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        try:
            yield draft
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot write {target}: {error.strerror}.") from None


def write_programs(programs: Rows, folder: Path, *, suffix: str = ".py", force: bool) -> int:
    """Write each program to a file, 000012.py for candidate 12, or, if it has several files, to a folder of them.
    Returns their number. Raises UsageError if the folder is not empty or cannot be written."""
    try:
        if folder.exists() and any(folder.iterdir()) and not force:
            raise UsageError(f"{folder} holds files already: name another folder, or add --force.")
        folder.mkdir(parents=True, exist_ok=True)
        number = 0
        for row in programs:
            stem = f"{row['candidate']:06d}"
            for path, text in Program.of(row["program"]).files.items():
                file = folder / stem / path if path else folder / f"{stem}{suffix}"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8", newline="")
            number += 1
    except OSError as error:
        raise UsageError(f"Cannot write {folder}: {error.strerror}.") from None
    return number


def _write(rows: Rows, form: Format, stream: TextIO, *, safe: bool = False) -> int:
    number = 0
    for row in rows:
        if form == "json":
            stream.write(",\n" if number else "[")
            stream.write(json.dumps(_decoded(row), ensure_ascii=safe, allow_nan=False))
        elif form == "jsonl":
            stream.write(json.dumps(_decoded(row), ensure_ascii=safe, allow_nan=False) + "\n")
        else:
            if number == 0:
                stream.write(csv_line(row))
            line = csv_line(row.values())
            stream.write(visible(line[:-1]) + "\n" if safe else line)
        number += 1
    if form == "json":
        stream.write("]\n" if number else "[]\n")
    return number


def _decoded(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its metrics parsed: a database that stores JSON as text returns them as text."""
    return {
        name: json.loads(value) if name == "metrics" and isinstance(value, str) else value
        for name, value in row.items()
    }


def csv_line(values: Iterable[Any]) -> str:
    """Values as a line of CSV. No text can be a formula: a spreadsheet computes what begins with one of _FORMULA."""
    line = ",".join([_quoted(_cell(value)) for value in values])
    return (line or '""') + "\n"  # an empty line is no row


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, str):
        return f"'{value}" if value.lstrip().startswith(_FORMULA) else value
    return repr(value) if isinstance(value, float) else str(value)


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if any(sign in cell for sign in ',"\r\n') else cell
