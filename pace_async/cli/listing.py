"""pace list: the runs in a folder, a database or the index of this machine."""

import time
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pace_async.cli.output import JSON_OPTION, print_json, print_table, tell
from pace_async.runtime.run_paths import RUNS, RunPaths, runs_under

if TYPE_CHECKING:
    from pace_async.population.reading.summaries import RunSummary

_ALIVE = ("created", "running", "draining")
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def list_runs(
    where: str | None = typer.Argument(
        None, help="Folder of runs, or the URL of a database [default: runs].", metavar="[FOLDER|URL]"
    ),
    everywhere: bool = typer.Option(False, "--all", help="The runs of this machine's index, wherever they are."),
    as_json: bool = JSON_OPTION,
) -> None:
    """The runs in a folder or a database: state, candidates, best score, spend, age. The last active one is first.

    With --all, where the runs of this machine are. Each run writes its folder into an index when it begins or is
    resumed, runs.jsonl in ~/.local/share/pace or $PACE_HOME. It holds the last 1,000 runs, and a run whose folder is no
    longer there is gone.

    Example: pace list

    Example: pace list --all

    Example: pace list runs --json
    """
    now = time.time()
    if everywhere:
        rows = _of_this_machine(where)
    else:
        rows = _in_database(where) if where is not None and "://" in where else _in_folder(Path(where or RUNS))
    rows.sort(key=lambda row: row["last_at"] or 0.0, reverse=True)
    if as_json:
        for row in rows:
            row["age_seconds"] = None if row["made_at"] is None else max(0.0, now - row["made_at"])
        print_json(rows)
        return
    if not rows:
        place = "in the index of this machine" if everywhere else f"under {where or f'./{RUNS}'}"
        tell(f"There is no run {place} yet: `pace run` makes one.")
        return
    print_table([{**_line(row, now), **({"folder": row["folder"]} if everywhere else {})} for row in rows])


def _of_this_machine(where: str | None) -> list[dict[str, Any]]:
    """The runs of the index, those whose folder is gone among them. Raises UsageError."""
    from pace_async.errors import UsageError
    from pace_async.runtime.run_index import indexed_runs

    if where is not None:
        raise UsageError(f"--all lists the runs of this machine: leave {where!r} out.")
    paths = [RunPaths(run.folder) for run in indexed_runs()]
    return [row for of_run in paths for row in (_of_folder(of_run) if of_run.exists else [_gone_row(of_run)])]


def _in_database(url: str) -> list[dict[str, Any]]:
    """The runs of one database. Whether a process drives them cannot be known here."""
    from pace_async.population.reading.reader import open_readonly

    with open_readonly(url) as reader:
        return [_summary_row(summary, summary.run, None, None) for summary in reader.summaries()]


def _in_folder(folder: Path) -> list[dict[str, Any]]:
    """The runs in the folder, or the folder's own. Raises UsageError."""
    from pace_async.errors import UsageError

    own = RunPaths(folder)
    paths = [own] if own.exists else runs_under(folder)
    if not paths and folder != RUNS and not folder.is_dir():
        raise UsageError(f"There is no folder {str(folder)!r}.")
    return [row for run in paths for row in _of_folder(run)]


def _of_folder(paths: RunPaths) -> list[dict[str, Any]]:
    """The run of one folder, empty before its first row. One that cannot be read is in the list with its problem."""
    from pace_async.errors import UsageError
    from pace_async.population.lock import is_driven
    from pace_async.population.reading.reader import open_readonly

    try:
        where, name = paths.population
        driven = is_driven(paths.folder)  # before the rows: a run that ends in between is never shown as cut off
        with open_readonly(where, name) as reader:
            return [
                _summary_row(summary, paths.name, str(paths.folder), driven)
                for summary in reader.summaries()
                if name is None or summary.run == name
            ]
    except UsageError as error:
        return [_unknown(paths, str(error))]


def _gone_row(paths: RunPaths) -> dict[str, Any]:
    return {**_unknown(paths, f"There is no run in {paths.folder} any more."), "state": "gone"}


def _unknown(paths: RunPaths, problem: str) -> dict[str, Any]:
    from pace_async.population.reading.summaries import RunSummary

    unknown = dict.fromkeys(field.name for field in fields(RunSummary))
    return {**unknown, "run": paths.name, "folder": str(paths.folder), "driven": None, "problem": problem}


def _summary_row(summary: "RunSummary", run: str, folder: str | None, driven: bool | None) -> dict[str, Any]:
    return {**asdict(summary), "run": run, "folder": folder, "driven": driven, "problem": None}


def _line(row: dict[str, Any], now: float) -> dict[str, object]:
    from pace_async.observe.spending import in_usd

    if row["problem"] is not None:
        names = ("candidates", "best", "spend", "age", "active")
        return {"run": row["run"], "task": None, "state": row["state"] or "cannot be read", **dict.fromkeys(names)}
    return {
        "run": row["run"],
        "task": row["task"],
        "state": "cut off" if row["driven"] is False and row["state"] in _ALIVE else row["state"],
        "candidates": row["candidates"],
        "best": row["best_score"],
        "spend": in_usd(row["spend_known_usd"], unpriced=row["spend_usd"] is None, digits=2),
        "age": age(now - row["made_at"]),
        "active": f"{age(now - row['last_at'])} ago",
    }


def age(seconds: float) -> str:
    """Seconds in the largest unit that gives at least one: `3 d`, `2 h`, `5 min`, `10 s`."""
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "0 s"
