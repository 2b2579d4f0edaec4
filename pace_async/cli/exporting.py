"""pace export: a run's rows for other programs."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from pace_async.cli.output import JSON_OPTION, RUN_ARGUMENT, print_json, tell
from pace_async.interface.opening import open_anywhere

if TYPE_CHECKING:
    from pace_async.cli.documents import ExportedFile

What = Literal["candidates", "rollouts", "ideas", "updates", "front", "programs"]
Format = Literal["csv", "jsonl", "parquet"]
_WHAT = typer.Option(
    "candidates",
    "--what",
    help="One row for each of these. front: candidates that no other one surpasses. programs: files in a folder.",
)
_FORMAT = typer.Option("csv", "--format", help="Of the rows. Parquet has typed columns.")


def export(
    run: str | None = RUN_ARGUMENT,
    what: What = _WHAT,
    form: Format = _FORMAT,
    output: Path | None = typer.Option(
        None,
        "-o",
        "--output",
        help="File to write, or the folder of programs [default: standard output].",
        metavar="FILE",
    ),
    force: bool = typer.Option(False, "--force", help="Overwrite existing files."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Write a run's rows as CSV, JSON lines or Parquet, or its programs as files.

    The columns are the same in each format. In Parquet each has a type: times are timestamps in UTC, and metrics are a
    text of JSON. It needs a file.

    With --json and no file, the rows are one JSON list. With --json and a file, a summary is printed as JSON.

    Example: pace export circle_packing-1 --what updates

    Example: pace export circle_packing-1 --format jsonl -o candidates.jsonl

    Example: pace export circle_packing-1 --format parquet -o candidates.parquet

    Example: pace export circle_packing-1 --what programs -o programs
    """
    from pace_async.errors import UsageError

    with open_anywhere(run) as (_, reader):
        from pace_async.report import rows
        from pace_async.task import suffix_of_programs

        if what == "programs":
            if output is None:
                raise UsageError("Programs are files: name their folder, as in `-o programs`.")
            suffix = suffix_of_programs(reader.header())
            number = rows.write_programs(reader.programs(), output, suffix=suffix, force=force)
        elif form == "parquet":
            if output is None:
                raise UsageError("Parquet is written to a file: name it, as in `-o candidates.parquet`.")
            number = rows.write_rows_as_parquet(reader.stream(what), what, output, force=force)
        elif output is None:
            rows.print_rows(reader.stream(what), "json" if as_json else form)
            return
        else:
            number = rows.write_rows(reader.stream(what), form, output, force=force)
    if as_json:
        document: ExportedFile = {"what": what, "rows": number, "path": str(output)}
        print_json(document)
    else:
        tell(f"{number} {what} in {output}", err=True)
