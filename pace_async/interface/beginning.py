"""What is asked for when a run begins or goes on, as one value, and what follows from it.

The command line, Python and the process that Python starts (`interface.child`) all make these values and give them to
`begin` and `go_on`. Invariant: a mistake in the settings, the task, a key or a name is refused before anything heavy is
loaded.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

from pace_async.configure import resolve
from pace_async.errors import UsageError
from pace_async.interface import series_of_runs
from pace_async.interface.series_of_runs import Ended
from pace_async.observe.watchers.choose import watchers_of

if TYPE_CHECKING:
    from pace_async.config import Config

Settings = Mapping[str, object]
"""Dotted names and values, such as {"stop.candidates": 16}: docs/configuration.md has them all."""


_NUMBER = re.compile(r"-?\d{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A new run, or with a number of `seeds` a series of so many. A folder as `seeds` is added to `search.start_with`.
    `settings` override the `files`, of which a later one overrides an earlier one. Without `run_dir` the run has the
    next free folder under ./runs. `config` is what all this says together. Raises UsageError for a wrong setting, a
    series without a run, and seeds that are neither."""

    settings: Settings
    files: Sequence[str | Path] = ()
    run_dir: str | Path | None = None
    seeds: int | str | Path | None = None
    display: str = "none"
    logs: Sequence[str] = ()
    config: "Config" = field(init=False)

    def __post_init__(self) -> None:
        files, seeds, settings = [Path(file) for file in self.files], self.seeds, self.settings
        if isinstance(seeds, str | Path):
            if _NUMBER.fullmatch(str(seeds)):
                seeds = int(str(seeds))
            elif seeds and Path(seeds).is_dir():
                others = resolve(files, settings).search.start_with
                seeds, settings = None, {**settings, "search.start_with": [*others, str(seeds)]}
            else:
                raise UsageError(f"Seeds are a number of runs, or a folder of programs: {seeds} is neither.")
        if seeds is not None and seeds < 1:
            raise UsageError(f"seeds={seeds}: a series has at least one run.")
        for name, value in (("seeds", seeds), ("settings", settings), ("config", resolve(files, settings))):
            object.__setattr__(self, name, value)

    @property
    def runs(self) -> int | None:
        """How many runs a series has, None for a single run."""
        return self.seeds if isinstance(self.seeds, int) else None

    @property
    def folder(self) -> Path | None:
        """The folder that is asked for."""
        return None if self.run_dir is None else Path(self.run_dir)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOn:
    """A run or a series that goes on: a folder, a name under ./runs, or None for the latest run. `settings` are those
    that change. `despite_loss`: also where committed rows were lost."""

    run: str | None = None
    settings: Settings = field(default_factory=dict[str, object])
    display: str = "none"
    logs: Sequence[str] = ()
    despite_loss: bool = False


def document_of(asked: Asked | AskedOn) -> str:
    """It as a document, which `read` reads."""
    values = {attribute.name: getattr(asked, attribute.name) for attribute in fields(asked) if attribute.init}
    return json.dumps({type(asked).__name__: values}, default=str)


def read(document: str) -> Asked | AskedOn:
    """What was asked. Raises UsageError."""
    ((kind, values),) = json.loads(document).items()
    return (Asked if kind == Asked.__name__ else AskedOn)(**values)


def begin(asked: Asked) -> Ended:
    """Drive a new run, or a series of them, to its end. Raises PaceError."""
    logs = watchers_of(asked.logs)
    if asked.runs is not None:
        series = series_of_runs.with_folder(asked.config, asked.runs, asked.folder)
        return series_of_runs.drive(series, {}, (asked.display, logs))
    from pace_async.runtime.start.refusals import look

    task = look(asked.config, asked.folder)
    from pace_async.runtime.start.launch import start

    return Ended(start(asked.config, task, asked.folder, (asked.display, logs)))


def go_on(asked: AskedOn) -> Ended:
    """Resume a run, or the series in a folder, to its end. Raises PaceError, and RunLocked if another process drives
    it."""
    from pace_async.runtime.run_paths import find_run_paths
    from pace_async.runtime.series import find_series

    series = find_series(asked.run)
    if series is None:
        find_run_paths(asked.run)
    observers = asked.display, watchers_of(asked.logs)
    if series is not None:
        return series_of_runs.drive(series, asked.settings, observers, despite_loss=asked.despite_loss)
    from pace_async.runtime.start import launch

    return Ended(launch.go_on(asked.run, asked.settings, observers, despite_loss=asked.despite_loss))
