"""Where a run lives: runs/NAME/ with the population, the configuration, the weights, the groups and the logs."""

from dataclasses import dataclass
from pathlib import Path

from pace_async.errors import UsageError

RUNS = Path("runs")


@dataclass(frozen=True, slots=True)
class Places:
    """The files of one run."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def database(self) -> Path:
        return self.folder / "population.db"

    @property
    def config(self) -> Path:
        return self.folder / "config.yaml"

    @property
    def learner(self) -> Path:
        return self.folder / "learner"

    @property
    def groups(self) -> Path:
        return self.folder / "groups"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def served_model(self) -> Path:
        """What vLLM starts with: see `advise.engines.served_copy`."""
        return self.folder / "engine" / "model"

    @property
    def events(self) -> Path:
        return self.folder / "events.jsonl"

    @property
    def best(self) -> Path:
        return self.folder / "best.py"


def new_places(task: str, run_dir: Path | None) -> Places:
    """The folder of a run that does not exist yet. Raises UsageError if it does."""
    if run_dir is None:
        number = 1
        while (RUNS / f"{task}-{number}").exists():
            number += 1
        run_dir = RUNS / f"{task}-{number}"
    if (run_dir / "population.db").exists():
        raise UsageError(f"{run_dir} already holds a run: `pace resume {run_dir}` goes on with it.")
    if run_dir.exists() and not run_dir.is_dir():
        raise UsageError(f"{run_dir} is a file; --run-dir must name a folder.")
    return Places(run_dir)


def find_places(run: str | None) -> Places:
    """A run by its folder, by its name under ./runs, or the latest one. Raises UsageError."""
    if run is None:
        found = [path.parent for path in RUNS.glob("*/population.db")]
        if not found:
            raise UsageError("There is no run under ./runs yet: `pace run` makes one.")
        return Places(max(found, key=lambda folder: _written_at(Places(folder).database)))
    for folder in (Path(run), RUNS / run, Path(run).parent if run.endswith("population.db") else Path(run)):
        if (folder / "population.db").is_file():
            return Places(folder)
    there = sorted(path.parent.name for path in RUNS.glob("*/population.db"))
    hint = f"there are {', '.join(there[:5])}" if there else "there is none under ./runs"
    raise UsageError(f"There is no run {run!r}: {hint}.")


def _written_at(database: Path) -> float:
    """When a row was last committed, as far as files tell: what is new stands in the log beside the database until it
    is moved there. A reader may make an empty log, so one says nothing."""
    log = database.with_name(f"{database.name}-wal")
    times = [file.stat() for file in (database, log) if file.exists()]
    return max((found.st_mtime for found in times if found.st_size), default=0.0)
