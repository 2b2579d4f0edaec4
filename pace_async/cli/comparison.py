"""pace compare: runs of one task side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pace_async.cli.completing import run_names
from pace_async.cli.output import JSON_OPTION, print_json, print_table, tell
from pace_async.interface.opening import open_anywhere

if TYPE_CHECKING:
    from pace_async.cli.documents import Comparison
    from pace_async.report.comparison import Arm, ComparedRun, Estimate

WIDTH, HEIGHT = 72, 14
_RUNS = typer.Argument(
    ...,
    help="Run folders, folders of runs, names under ./runs, or URLs of databases (with #NAME if one holds several).",
    metavar="RUN…",
    autocompletion=run_names,
)
_PLOT = typer.Option(None, "--plot", help="Draw the curves into a file, .svg or .png.", metavar="FILE")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare")(compare)


def compare(runs: list[str] = _RUNS, plot: Path | None = _PLOT, as_json: bool = JSON_OPTION) -> None:
    """Runs of one task side by side: a table, the curves, and how much they differ.

    Runs whose settings differ only in the seed are seeds of one arm, A, B and so on. All are compared after the number
    of candidates that the shortest has. With two seeds or more an arm has a 95 % interval (Student's), and so has the
    difference of two such arms (Welch's).

    Example: pace compare circle_packing-1 circle_packing-1

    Example: pace compare runs

    Example: pace compare circle_packing-1 --json
    """
    from pace_async.report.compared_runs import refuse_unless_comparable
    from pace_async.report.comparison import arms_of, common, difference, verdict
    from pace_async.report.comparison_plot import plot as draw
    from pace_async.report.comparison_plot import refuse_unless_drawable

    if plot is not None:
        refuse_unless_drawable(plot)
    found = [_read(run) for run in dict.fromkeys(name for given in runs for name in _named(given))]
    refuse_unless_comparable(found)
    arms, candidates = arms_of(found), common(found)
    differences = [(arm, difference(arm, arms[0], candidates)) for arm in arms[1:]]
    if plot is not None:
        draw(arms, candidates, plot, found[0].task)
    if as_json:
        print_json(_document(arms, candidates, differences))
        return
    print_table([_row(arm, run, candidates) for arm in arms for run in arm.runs])
    _print_arms(arms, candidates, differences)
    for arm, found_difference in differences:
        tell(verdict(arm, arms[0], found_difference, found[0].direction))
    if len({run.task_digest for run in found}) > 1:
        tell("\nThe evaluators of these runs differ, so their scores may not be comparable.")
    tell("")
    for line in _drawing(arms, candidates):
        tell(line)
    if plot is not None:
        tell(f"\nThe curves are in {plot}")


def _named(given: str) -> list[str]:
    """The run of that name, or the runs in the folder of that name, by name. Raises UsageError for a folder without."""
    from pace_async.errors import UsageError
    from pace_async.runtime.run_paths import is_run, runs_under

    folder = Path(given)
    if "://" in given or is_run(given) or not folder.is_dir():
        return [given]
    if not (inside := sorted(str(paths.folder) for paths in runs_under(folder))):
        raise UsageError(f"There is no run in the folder {given!r}.")
    return inside


def _read(run: str) -> "ComparedRun":
    """One run. Raises UsageError."""
    with open_anywhere(run) as (paths, reader):
        from pace_async.report.compared_runs import compared_run

        return compared_run(reader, None if paths is None else paths.name)


def _row(arm: "Arm", run: "ComparedRun", candidates: int) -> dict[str, object]:
    return {
        "arm": arm.name,
        "run": run.run,
        "seed": run.seed,
        "state": run.state,
        "candidates": run.candidates,
        "best": run.best_after(run.candidates),
        f"after {candidates}": run.best_after(candidates),
        "spend": f"{run.spend_usd:.2f} USD",
    }


def _print_arms(arms: "Sequence[Arm]", candidates: int, differences: "Sequence[tuple[Arm, Estimate | None]]") -> None:
    if len(arms) == 1 and len(arms[0].runs) == 1:
        return
    against = {arm.name: found for arm, found in differences}
    tell("")
    print_table(
        [
            {
                "arm": arm.name,
                "seeds": len(arm.runs),
                f"mean after {candidates}": _value(arm.mean(candidates)),
                "95 %": _interval(arm.mean(candidates)),
                f"minus {arms[0].name}": _value(against.get(arm.name)),
                "95 % of it": _interval(against.get(arm.name)),
                "settings": " ".join(f"{name}={value}" for name, value in arm.settings.items()) or None,
            }
            for arm in arms
        ]
    )


def _value(found: "Estimate | None") -> str:
    return "-" if found is None else f"{found.value:.6g}"


def _interval(found: "Estimate | None") -> str:
    return "-" if found is None or found.low is None else f"{found.low:.6g} to {found.high:.6g}"


def _drawing(arms: "Sequence[Arm]", candidates: int) -> list[str]:
    """The mean curves of the arms, on axes."""
    from pace_async.observe.chart import curves
    from pace_async.report.comparison import band, sampled

    drawn = {arm.name: sampled(band(arm, candidates), WIDTH, candidates) for arm in arms}
    values = [value for curve in drawn.values() for value in curve if value is not None]
    if not values:
        return ["no score yet"]
    lines = curves(drawn, HEIGHT)
    labels = {0: f"{max(values):.6g}", HEIGHT - 1: f"{min(values):.6g}"}
    edge = max(len(label) for label in labels.values())
    below = f"{'':>{edge}}  0{f'{candidates} candidates':>{WIDTH - 1}}"
    return [*(f"{labels.get(row, ''):>{edge}} │{line.rstrip()}" for row, line in enumerate(lines)), below]


def _document(
    arms: "Sequence[Arm]", candidates: int, differences: "Sequence[tuple[Arm, Estimate | None]]"
) -> "Comparison":
    first = arms[0].runs[0]
    return {
        "task": first.task,
        "direction": first.direction,
        "candidates": candidates,
        "runs": [
            {
                "run": run.run,
                "arm": arm.name,
                "seed": run.seed,
                "state": run.state,
                "candidates": run.candidates,
                "best_score": run.best_after(run.candidates),
                "best_compared": run.best_after(candidates),
                "spend_usd": run.spend_usd,
                "curve": list(run.curve),
            }
            for arm in arms
            for run in arm.runs
        ],
        "arms": [
            {
                "arm": arm.name,
                "seeds": len(arm.runs),
                "settings": dict(arm.settings),
                "mean": None if found is None else found.value,
                "low": None if found is None else found.low,
                "high": None if found is None else found.high,
            }
            for arm, found in ((arm, arm.mean(candidates)) for arm in arms)
        ],
        "differences": [
            {
                "arm": arm.name,
                "against": arms[0].name,
                "difference": None if found is None else found.value,
                "low": None if found is None else found.low,
                "high": None if found is None else found.high,
                "told_apart": None if found is None else found.told_apart,
            }
            for arm, found in differences
        ],
    }
