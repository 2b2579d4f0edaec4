"""`pace run --seeds` and the resume of a series: its runs one after the other, and a row for each at the end."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pace_async.cli.output import print_table, tell
from pace_async.registry.displays import DISPLAYS

if TYPE_CHECKING:
    from pace_async.config import Config
    from pace_async.observe.watchers.choose import Chosen
    from pace_async.runtime.run_paths import RunPaths
    from pace_async.runtime.series import Series


def plan(config: "Config", number: int, run_dir: Path | None) -> "Series":
    """The series that `pace run --seeds NUMBER` begins or goes on with. Raises UsageError."""
    from pace_async.population.reading.reader import names_of_runs
    from pace_async.runtime.series import planned_series
    from pace_async.task import load_task

    url = config.population.url if run_dir is None else None
    taken = () if url is None else names_of_runs(url)
    return planned_series(config, load_task(config.task).name, number, run_dir, taken)


def begin(config: "Config", number: int, run_dir: Path | None, display: str, logs: Sequence["Chosen"]) -> int:
    """`pace run --seeds NUMBER`. Returns the exit code. Raises PaceError."""
    from pace_async.runtime.series import made
    from pace_async.runtime.start.refusals import look

    series = plan(config, number, run_dir)
    left = series.unfinished()
    if left and not series.paths(left[0]).exists:
        look(series.config_of(left[0]), series.paths(left[0]).folder)  # before the folder of the series is made
    return _drive(made(series), {}, display, logs, despite_loss=False)


def resume(
    series: "Series", changes: Mapping[str, object], display: str, logs: Sequence["Chosen"], *, despite_loss: bool
) -> int:
    """`pace resume` of a series. Returns the exit code. Raises PaceError."""
    return _drive(series, dict(changes), display, logs, despite_loss=despite_loss)


def _drive(
    series: "Series", changes: dict[str, object], display: str, logs: Sequence["Chosen"], *, despite_loss: bool
) -> int:
    """Run what is missing, in the order of the seeds, until a run is interrupted."""
    from pace_async.errors import Interrupted, PaceError, RunLocked
    from pace_async.population.lock import RunLock
    from pace_async.runtime.start.launch import go_on, start
    from pace_async.runtime.start.refusals import look
    from pace_async.runtime.start.signals import asked_to_end, ends_as_by_ctrl_c

    asked = series.changed(changes) if changes else series
    code, hint = 0, f"`pace resume {series.folder}` goes on with the series."
    try:
        with ends_as_by_ctrl_c(), RunLock(series.folder):
            left = list(asked.seeds) if changes else asked.unfinished()
            _announce(display, _begins(asked, left))
            for seed in left:
                paths, config = asked.paths(seed), asked.config_of(seed)
                _announce(display, f"run {paths.name}, seed {seed}")
                if paths.holds_run:
                    run = str(paths.folder)
                    ended = go_on(run, asked.changes_of(changes), display, logs, despite_loss=despite_loss)
                else:
                    ended = start(config, look(config, paths.folder), paths.folder, display, logs)
                if asked.config != series.config and seed == left[0]:
                    asked.write()  # the first run took the changes
                code = max(code, Interrupted.exit_code if asked_to_end() and seed != left[-1] else ended)
                if code == Interrupted.exit_code:
                    break
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted between two runs: {hint}") from None
    except RunLocked:
        raise
    except PaceError as error:
        if not series.gave_back():
            error.add_note(hint)
        raise
    if DISPLAYS[display].announces:
        _tell_summary(asked, hint)
    elif code == Interrupted.exit_code:
        raise Interrupted(f"interrupted: {hint}")
    return code


def _begins(series: "Series", left: Sequence[int]) -> str:
    names = ", ".join(map(str, left))
    done = series.number - len(left)
    text = f"{series.number} runs one after the other in {series.folder}"
    text += f", {done} of them finished" if done else ""
    text += f", seeds {names}" if len(left) > 1 else f", seed {names}" if left else ""
    return ". ".join(filter(None, (text, budget_in_words(series))))


def budget_in_words(series: "Series") -> str:
    """What the budget holds for, empty without one."""
    if series.share is None:
        return ""
    return f"The budget of {series.config.stop.budget:g} USD holds for all together: {series.share:.4g} USD each"


def _announce(display: str, text: str) -> None:
    if DISPLAYS[display].announces:
        tell(f"pace: {text}", err=True)


def _tell_summary(series: "Series", hint: str) -> None:
    tell("")
    print_table([_row(seed, series.paths(seed)) for seed in series.seeds])
    tell(f"\n`pace compare {series.folder}` compares the runs, with the interval of their mean.")
    if series.unfinished():
        tell(hint)


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
