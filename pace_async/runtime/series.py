"""A series: runs that differ only in the seed, in one folder, each named by it (`NAME-s1`).

Invariant: the runs of a series have equal settings and equal shares of its budget, so they are one arm of a comparison
and never spend more than the budget together.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pace_async.config import Config
from pace_async.configure import flat, resolve
from pace_async.durable import write_whole
from pace_async.errors import UsageError
from pace_async.population.lock import LOCK_NAME, is_driven
from pace_async.runtime.run_paths import RUNS, RunPaths, new_run_paths, series_folders, series_of

ENDED = ("done", "stopped_by_budget")
"""States of a run that came to its own end."""


@dataclass(frozen=True, slots=True)
class Series:
    """`config` is that of the series: its seed is the first one, its budget that of all runs together."""

    folder: Path
    number: int
    config: Config

    @property
    def seeds(self) -> range:
        return range(self.config.seed, self.config.seed + self.number)

    @property
    def file(self) -> Path:
        return series_of(self.folder)

    @property
    def share(self) -> float | None:
        """The budget of each run, in USD."""
        budget = self.config.stop.budget
        return None if budget is None else budget / self.number

    @property
    def budget_in_words(self) -> str:
        """What the budget holds for, empty without one."""
        if self.share is None:
            return ""
        return f"The budget of {self.config.stop.budget:g} USD holds for all together: {self.share:.4g} USD each"

    def paths(self, seed: int) -> RunPaths:
        return RunPaths(self.folder / f"{self.folder.absolute().name}-s{seed}")

    def config_of(self, seed: int) -> Config:
        """The settings of one of the runs."""
        stop = self.config.stop.model_copy(update={"budget": self.share})
        return self.config.model_copy(update={"seed": seed, "stop": stop})

    def changed(self, changes: Mapping[str, object]) -> "Series":
        """The series with other settings. Raises UsageError."""
        config = resolve(None, {**flat(self.config.model_dump(mode="json")), **changes}, environment={})
        return Series(self.folder, self.number, config)

    def changes_of(self, changes: Mapping[str, object]) -> Mapping[str, object]:
        """The changes for one run: its share of a new budget."""
        return changes if changes.get("stop.budget") is None else {**changes, "stop.budget": self.share}

    def write(self) -> None:
        """Record the settings in the folder. Raises InfrastructureFault."""
        document = {"runs": self.number, "config": self.config.model_dump(mode="json")}
        write_whole(self.file, json.dumps(document, indent=1) + "\n")

    def gave_back(self) -> bool:
        """Remove the folder if no run of the series was written there. Returns whether that is so."""
        if any(self.paths(seed).exists for seed in self.seeds):
            return False
        for file in (self.file, self.folder / LOCK_NAME):
            file.unlink(missing_ok=True)
        with suppress(OSError):
            for seed in self.seeds:
                if (folder := self.paths(seed).folder).is_dir():
                    (folder / LOCK_NAME).unlink(missing_ok=True)
                    folder.rmdir()
            self.folder.rmdir()
        return True

    def unfinished(self) -> list[int]:
        """Seeds of the runs that have not come to their own end."""
        return [seed for seed in self.seeds if not has_ended(self.paths(seed))]


def has_ended(paths: RunPaths) -> bool:
    """Whether there is a run that came to its own end."""
    if not paths.holds_run:
        return False
    from pace_async.population.reading.reader import open_readonly

    where, name = paths.population
    with open_readonly(where, name) as reader:
        return reader.status()["state"] in ENDED


def read_series(folder: Path) -> Series:
    """The series of a folder. Raises UsageError."""
    file = series_of(folder)
    try:
        document: Any = json.loads(file.read_text(encoding="utf-8"))
        number, config = int(document["runs"]), dict[str, Any](document["config"])
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"{file} cannot be read: it says which runs the series has.") from None
    return Series(folder, number, resolve(None, flat(config), environment={}))


def planned_series(config: Config, task: str, number: int, run_dir: Path | None, taken: tuple[str, ...]) -> Series:
    """The series of `number` runs that a command asks for: the unfinished one that the same command began, else a new
    one. No run of a new one has a name that is `taken`. Writes nothing. Raises UsageError."""
    if run_dir is not None:
        series = Series(new_run_paths(task, run_dir).folder, number, config)
        if series.file.exists() and not _same(read_series(run_dir), series):
            raise UsageError(
                f"{run_dir} holds a series with other settings: `pace resume {run_dir}` goes on with it, or name "
                "another folder."
            )
        return series
    for folder in sorted(series_folders(RUNS), key=lambda folder: series_of(folder).stat().st_mtime, reverse=True):
        begun = read_series(folder)
        if _same(begun, Series(folder, number, config)) and not is_driven(folder) and begun.unfinished():
            return begun
    bases = {name.rpartition("-s")[0] for name in taken}
    return Series(new_run_paths(task, None, (*taken, *bases)).folder, number, config)


def _same(series: Series, other: Series) -> bool:
    return series.number == other.number and series.config == other.config


def make_folder(series: Series) -> Series:
    """Make the folder of the series, or that of the next free name if another process was faster. Raises UsageError
    and InfrastructureFault."""
    while not series.file.exists():
        try:
            series.folder.mkdir(parents=True)
        except FileExistsError:
            if series.folder.parent == RUNS and any(series.folder.iterdir()):
                base = series.folder.name.rpartition("-")[0]
                series = Series(new_run_paths(base, None).folder, series.number, series.config)
                continue
        except OSError as error:
            raise UsageError(f"Cannot make {series.folder}: {error.strerror}.") from None
        series.write()
    return series


def series_folder(run: str) -> Path | None:
    """The folder of a series that is named by it, or by its name under ./runs, even if its file cannot be read."""
    return next((folder for folder in (Path(run), RUNS / run) if series_of(folder).is_file()), None)


def find_series(run: str | None) -> Series | None:
    """The series in a folder, or of this name under ./runs. Raises UsageError if it cannot be read."""
    folder = None if run is None else series_folder(run)
    return None if folder is None else read_series(folder)
