"""Drives a series: its runs one after the other, what is left of them, and how they end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pace_async.errors import Interrupted, PaceError, RunLocked

if TYPE_CHECKING:
    from pace_async.config import Config
    from pace_async.runtime.series import Series
    from pace_async.runtime.start.launch import Observers


@dataclass(frozen=True, slots=True)
class Ended:
    """How runs ended that were driven: the exit code, and the series that they belong to."""

    code: int
    series: "Series | None" = None


def planned(config: "Config", number: int, run_dir: Path | None) -> "Series":
    """The series of `number` runs that begins or goes on. Writes nothing. Raises UsageError."""
    from pace_async.population.reading.reader import names_of_runs
    from pace_async.runtime.series import planned_series
    from pace_async.task import load_task

    url = config.population.url if run_dir is None else None
    taken = () if url is None else names_of_runs(url)
    return planned_series(config, load_task(config.task).name, number, run_dir, taken)


def with_folder(config: "Config", number: int, run_dir: Path | None) -> "Series":
    """The same, and its folder is made. What the next run of it refuses is refused before. Raises UsageError."""
    from pace_async.runtime.series import make_folder
    from pace_async.runtime.start.refusals import look

    series = planned(config, number, run_dir)
    left = series.unfinished()
    if left and not series.paths(left[0]).exists:
        look(series.config_of(left[0]), series.paths(left[0]).folder)
    return make_folder(series)


def drive(series: "Series", changes: Mapping[str, object], shown: "Observers", *, despite_loss: bool = False) -> Ended:
    """Run what is missing, in the order of the seeds, until a run is interrupted. With changes of the settings also
    those go on that ended. Raises PaceError."""
    from pace_async.population.lock import RunLock
    from pace_async.registry.displays import DISPLAYS
    from pace_async.runtime.start.launch import announce, go_on, start
    from pace_async.runtime.start.refusals import look
    from pace_async.runtime.start.signals import asked_to_end, ends_as_by_ctrl_c

    updated = series.changed(changes) if changes else series
    code, hint, display = 0, f"`pace resume {series.folder}` goes on with the series.", shown[0]
    try:
        with ends_as_by_ctrl_c(), RunLock(series.folder):
            left = list(updated.seeds) if changes else updated.unfinished()
            announce(display, _begins(updated, left))
            for seed in left:
                paths, config = updated.paths(seed), updated.config_of(seed)
                announce(display, f"run {paths.name}, seed {seed}")
                if paths.holds_run:
                    ended = go_on(str(paths.folder), updated.changes_of(changes), shown, despite_loss=despite_loss)
                else:
                    ended = start(config, look(config, paths.folder), paths.folder, shown)
                if updated.config != series.config and seed == left[0]:
                    updated.write()  # the first run took the changes
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
    if code == Interrupted.exit_code and not DISPLAYS[display].announces:
        raise Interrupted(f"interrupted: {hint}")
    return Ended(code, updated)


def _begins(series: "Series", left: Sequence[int]) -> str:
    names = ", ".join(map(str, left))
    done = series.number - len(left)
    text = f"{series.number} runs one after the other in {series.folder}"
    text += f", {done} of them finished" if done else ""
    text += f", seeds {names}" if len(left) > 1 else f", seed {names}" if left else ""
    return ". ".join(filter(None, (text, series.budget_in_words)))
