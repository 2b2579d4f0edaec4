"""pace compare: runs of one task side by side."""

from pathlib import Path
from typing import Literal

import typer

from pace_async.cli.completing import run_names
from pace_async.cli.output import JSON_OPTION, print_json, tell, terminal_width

_RUNS = typer.Argument(
    ...,
    help="Run folders, folders of runs, names under ./runs, or URLs of databases (with #NAME if one holds several).",
    metavar="RUN…",
    autocompletion=run_names,
)
_BY = typer.Option("candidates", "--by", help="What places on the curves count: candidates, hours of search, or USD.")
_PLOT = typer.Option(None, "--plot", help="Draw the curves into a file, .svg or .png.", metavar="FILE")


def compare(
    runs: list[str] = _RUNS,
    by: Literal["candidates", "hours", "usd"] = _BY,
    plot: Path | None = _PLOT,
    as_json: bool = JSON_OPTION,
) -> None:
    """Runs of one task side by side: tables, the curves, and how much they differ.

    Runs whose settings differ only in the seed are seeds of one arm, A, B and so on. All are compared after the number
    of candidates that the shortest has, or after its hours of search or USD (--by). With two seeds or more an arm has a
    95 % interval (Student's), and so has the difference of two such arms (Welch's). Where best programs were also
    scored at fresh seeds, these scores stand beside those of the search. Runs with several objectives are compared by
    the hypervolumes of their fronts too. Spikes are how often entropy and gradient norm rise beyond twice their running
    median in the last half of the updates, from eight trained groups on.

    Example: pace compare circle_packing-1 circle_packing-1

    Example: pace compare runs --by hours

    Example: pace compare circle_packing-1 --json
    """
    from pace_async.interface.comparing import compare as compared
    from pace_async.report.comparison_plot import refuse_unless_drawable
    from pace_async.report.comparison_text import lines

    if plot is not None:
        refuse_unless_drawable(plot)
    comparison = compared(*runs, by=by)
    if plot is not None:
        comparison.plot(plot)
    if as_json:
        print_json(comparison.document())
        return
    for line in lines(comparison, terminal_width()):
        tell(line)
    if plot is not None:
        tell(f"\nThe curves are in {plot}")
