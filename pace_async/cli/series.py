"""What a series of runs came to: a row for each run."""

from typing import TYPE_CHECKING

from pace_async.cli.output import print_table, tell

if TYPE_CHECKING:
    from pace_async.runtime.run_paths import RunPaths
    from pace_async.runtime.series import Series


def tell_summary(series: "Series") -> None:
    """What each run of the series came to, and how the series goes on where a run is missing or did not end."""
    tell("")
    print_table([_row(seed, series.paths(seed)) for seed in series.seeds])
    tell(f"\n`pace compare {series.folder}` compares the runs, with the interval of their mean.")
    if series.unfinished():
        tell(f"`pace resume {series.folder}` goes on with the series.")


def _row(seed: int, paths: "RunPaths") -> dict[str, object]:
    from pace_async.observe.spending import spent_usd
    from pace_async.observe.standing import says_nothing
    from pace_async.population.reading.reader import open_readonly

    names = ("candidates", "best", "fresh score", "spend")
    if not paths.holds_run:
        return {"seed": seed, "run": paths.name, "state": "not begun", **dict.fromkeys(names)}
    where, name = paths.population
    with open_readonly(where, name) as reader:
        status, header = reader.status(), reader.header()
    unpriced = [role for role, cost in status["spend_by_role"].items() if cost is None]
    usd = spent_usd(status["spend_known_usd"], unpriced)
    best, fresh = status["best_score"], status["best_fresh_score"]
    values = (
        status["candidates"],
        best,
        "the same" if fresh is not None and says_nothing(best, fresh, header) else fresh,
        usd,
    )
    return {"seed": seed, "run": paths.name, "state": status["state"], **dict(zip(names, values, strict=True))}
