"""pace report: a run as one HTML file."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pace_async.cli.output import JSON_OPTION, RUN_ARGUMENT, print_json, tell
from pace_async.interface.opening import open_run

if TYPE_CHECKING:
    from pace_async.cli.documents import WrittenFile


def report(
    run: str | None = RUN_ARGUMENT,
    output: Path | None = typer.Option(
        None, "-o", "--output", help="File to write [default: report.html in the run's folder].", metavar="FILE"
    ),
    show: bool = typer.Option(False, "--open", help="Open it in the browser."),
    force: bool = typer.Option(False, "--force", help="Overwrite a file that is not a report."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Write a run as one HTML file: curve, lineage, candidates, islands, learner, faults, spend, a diff.

    The file needs no network. Its one script, which sorts and folds, is allowed by its hash.

    Example: pace report circle_packing-1 -o report.html
    """
    with open_run(run) as (paths, reader):
        from pace_async.report.facts import gather
        from pace_async.report.page import write_page
        from pace_async.task import best_known

        facts = gather(reader, best_known(reader.header()))
    target = output or paths.folder / "report.html"
    write_page(facts, target, force=force)
    if as_json:
        document: WrittenFile = {"path": str(target), "bytes": target.stat().st_size}
        print_json(document)
    else:
        tell(f"{target}: open it in a browser")
    if show:
        import webbrowser

        if not webbrowser.open(target.absolute().as_uri()):
            tell("No browser could be started here.", err=True)
