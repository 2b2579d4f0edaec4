"""Compares runs, for Python and the command line."""

from pathlib import Path

from pace_async.errors import UsageError
from pace_async.interface.opening import open_anywhere
from pace_async.interface.reading import Run
from pace_async.report.compared import Comparison
from pace_async.report.compared_runs import compared_run, refuse_unless_comparable
from pace_async.report.comparison import CHOICES, By, ComparedRun
from pace_async.runtime.run_paths import RUNS, is_run, runs_under


def compare(*runs: str | Path | Run, by: By = "candidates") -> Comparison:
    """Runs of one task side by side, as `pace compare` compares them. A run is a folder, a folder of runs, a name of
    either under ./runs, the URL of a database, or a `Run`. They are compared after as many candidates, hours of search
    or USD as the shortest has. Raises UsageError for runs that cannot be read or have different tasks, and without a
    run."""
    if by not in CHOICES:
        raise UsageError(f"Runs are compared by {', '.join(CHOICES)}, not by {by!r}.")
    names = dict.fromkeys(name for run in runs for name in _run_names(run.name if isinstance(run, Run) else run))
    if not names:
        raise UsageError("There is no run to compare.")
    compared_runs: list[ComparedRun] = []
    for name in names:
        with open_anywhere(name) as (paths, reader):
            compared_runs.append(compared_run(reader, None if paths is None else paths.name, by))
    refuse_unless_comparable(compared_runs, by)
    return Comparison.of(compared_runs, by)


def _run_names(given: str | Path) -> list[str]:
    """The run of that name, or the runs in the folder of that name, by name. Raises UsageError for a folder without."""
    name = str(given)
    if "://" in name or is_run(name):
        return [name]
    folders = [folder for folder in (Path(given), RUNS / given) if folder.is_dir()]
    inside = [sorted(str(paths.folder) for paths in runs_under(folder)) for folder in folders]
    if folders and not any(inside):
        raise UsageError(f"There is no run in the folder {name!r}.")
    return next(filter(None, inside), [name])
