"""Where a run is stored: runs/NAME/ with the population, the configuration, the weights, the groups and the logs."""

from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from pace_async.durable import refuse_unless_utf8, write_whole
from pace_async.errors import UsageError

RUNS = Path("runs")
ROWS_LOST = (
    "its rows are gone, as when population.db-wal is removed after a crash; put population.db and its -wal back from "
    "a backup,"
)
IN_A_FOLDER = (
    "`pace db check`, `pace db sql` and `pace export` take a file too, and every command does once it is called "
    "population.db in a folder of its own."
)
NAMED = 5
"""How many runs a message names if the requested run does not exist."""


class _Inside:
    """The path of a file in a run's folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, paths: "RunPaths", _: object) -> Path:
        return paths.folder / self._name


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The files of one run."""

    folder: Path
    file = _Inside("population.db")
    pointer = _Inside("population.url")
    """The file with the population's URL on a server, and the run's name there."""
    config = _Inside("config.yaml")
    learner = _Inside("learner")
    advisor = _Inside("advisor")
    """The advisor bound to the task's catalogue, or the text part of one that has others."""
    groups = _Inside("groups")
    agents = _Inside("agents")
    """The folders in which an agent works, one for each unfinished candidate."""
    logs = _Inside("logs")
    served_model = _Inside("engine/model")
    """The directory that vLLM starts with: see `advise.engines.served_copy`."""
    events = _Inside("events.jsonl")
    own_task = _Inside("task")
    """The task that `pace optimize` makes of a program of the user's own."""
    own_program = _Inside("program.path")
    """A file with the path of that program, relative to where the user was."""
    difference = _Inside("best.diff")
    """What leads from that program to the best one."""
    patch = _Inside("best.patch")
    """What leads from the seed program to the best one, of a run whose programs have several files."""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def population(self) -> tuple[Path | str, str | None]:
        """A file, or the URL of a database on a server and the run's name there. Raises UsageError."""
        if not self.pointer.exists():
            return self.file, None
        lines = self.pointer.read_text().split()
        if len(lines) != 2:
            raise UsageError(f"{self.pointer} must hold the URL of a database and the name of a run in it.")
        return lines[0], lines[1]

    @property
    def exists(self) -> bool:
        """Whether there is a run, even one that only began."""
        return self.file.is_file() or self.pointer.is_file()

    @property
    def holds_run(self) -> bool:
        """Whether a run has begun here, which means that its first row is written."""
        if not self.exists:
            return False
        from pace_async.population.reading.load import NoRun
        from pace_async.population.reading.reader import open_readonly

        try:
            where, name = self.population
            with open_readonly(where, name) as reader:
                reader.header()
        except NoRun:
            return False
        except UsageError:
            return True  # even if it is damaged
        return True

    @property
    def left_by_run(self) -> str:
        """Names of what only a run with a first row leaves in its folder, in words, empty if nothing is there."""
        paths = (self.events, self.groups, self.learner)
        return ", ".join(path.name for path in paths if path.is_dir() or (path.is_file() and path.stat().st_size))

    def point_to(self, url: str) -> None:
        """Record that the folder's run is on a server. Raises InfrastructureFault if the disk fails."""
        write_whole(self.pointer, f"{url}\n{self.name}\n")

    def best(self, suffix: str = ".py") -> Path:
        """The copy of the best program, with the extension of the task's programs. A folder where they have several
        files, and so no extension."""
        return self.folder / f"best{suffix}"


def new_run_paths(task: str, run_dir: Path | None, taken: Collection[str] = ()) -> RunPaths:
    """The folder of a run that does not exist yet, and without `run_dir` a name that is not `taken` either. Raises
    UsageError if the folder holds a run."""
    if run_dir is None:
        number = 1
        while f"{task}-{number}" in taken or (RUNS / f"{task}-{number}").exists():
            number += 1
        run_dir = RUNS / f"{task}-{number}"
    refuse_unless_utf8(run_dir.absolute())
    if RunPaths(run_dir).holds_run:
        raise UsageError(f"{run_dir} already holds a run: `pace resume {run_dir}` goes on with it.")
    if left := RunPaths(run_dir).left_by_run:
        raise UsageError(
            f"{run_dir} holds what a run left there ({left}), and no population with it: {ROWS_LOST} or name another "
            "folder for a new run."
        )
    if run_dir.exists() and not run_dir.is_dir():
        raise UsageError(f"{run_dir} is a file; --run-dir must name a folder.")
    return RunPaths(run_dir)


def claimed(paths: RunPaths, taken: Collection[str] = ()) -> RunPaths:
    """Make the folder of a run that `new_run_paths` named, or that of the next free name if another process was faster.
    A folder that cannot be made is returned too: who writes there says why."""
    while True:
        try:
            paths.folder.mkdir(parents=True)
        except FileExistsError:
            other = new_run_paths(paths.name.rpartition("-")[0], None, taken)
            if other == paths:  # ./runs points nowhere
                return paths
            paths = other
        except OSError:
            return paths
        else:
            return paths


def find_run_paths(run: str | None) -> RunPaths:
    """A run by its folder, by its name under ./runs, the latest one of a task under ./runs, or the latest one of all.
    Raises UsageError. Loads nothing heavy: a missing run is refused before the database library is loaded."""
    if run is None:
        folders = _run_folders()
        if not folders:
            raise UsageError("There is no run under ./runs yet: `pace run` makes one.")
        return _latest(folders)
    if is_run(run):
        return next(RunPaths(folder) for folder in _possible_folders(run) if RunPaths(folder).exists)
    if of_task := [folder for folder in _run_folders() if _task_of(folder) == Path(run).name]:
        return _latest(of_task)
    series = [place for place in (Path(run), RUNS / run) if series_of(place).is_file()]
    if in_series := sorted(paths.folder for place in series for paths in runs_under(place)):
        raise UsageError(f"{run} holds a series of runs: name one of them, as in {in_series[0]}.")
    if is_database(run):
        raise UsageError(f"{run} is a file, and a run is a folder. {IN_A_FOLDER}")
    names = sorted(folder.name for folder in _run_folders())
    near = get_close_matches(Path(run).name, names, n=NAMED)
    if near:
        raise UsageError(f"There is no run {run!r}: did you mean {' or '.join(near)}? `pace list` shows all.")
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    hint = (
        f"there {'is' if len(names) == 1 else 'are'} {', '.join(names[:NAMED])}{more}"
        if names
        else "there is none under ./runs"
    )
    raise UsageError(f"There is no run {run!r}: {hint}. Name one of another place by its folder.")


def is_run(run: str) -> bool:
    """Whether this is a run's folder, or its name under ./runs."""
    return any(RunPaths(folder).exists for folder in _possible_folders(run))


def is_database(run: str) -> bool:
    """Whether this is a file that is not in a run's folder under the name of a run's population."""
    return "://" not in run and Path(run).is_file() and not is_run(run)


def _possible_folders(run: str) -> tuple[Path, ...]:
    database = (Path(run).parent,) if run.endswith("population.db") else ()
    return (Path(run), RUNS / run, RUNS / run.rpartition("-s")[0] / run, *database)


def _latest(folders: list[Path]) -> RunPaths:
    return RunPaths(max(folders, key=lambda folder: _written_at(RunPaths(folder))))


def _task_of(folder: Path) -> str:
    """The task of a run, from its configuration, or from its name before that is written, and where the task was made
    in the run's own folder."""
    try:
        lines = RunPaths(folder).config.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    task = next((line.removeprefix("task:").strip(" '\"") for line in lines if line.startswith("task:")), None)
    made_here = task is not None and Path(task).parent.name == folder.name
    return Path(task).name if task and not made_here else folder.name.rpartition("-")[0]


def runs_under(folder: Path) -> list[RunPaths]:
    """The runs in a folder and those of the series in it, in no order."""
    places = (folder, *series_folders(folder))
    return [RunPaths(inside) for place in places for inside in place.glob("*") if RunPaths(inside).exists]


def series_of(folder: Path) -> Path:
    """The file that makes a folder that of a series."""
    return folder / "series.json"


def series_folders(folder: Path) -> list[Path]:
    """The folders of series in a folder, in no order."""
    return [inside.parent for inside in folder.glob("*/series.json")]


def _run_folders() -> list[Path]:
    return [paths.folder for paths in runs_under(RUNS)]


def _written_at(paths: RunPaths) -> float:
    """The time of the last commit, from the files. New rows stand in the log beside the database until they are moved
    there. A reader may make an empty log, so an empty one is ignored. For a database on a server the events' file is
    used."""
    log = paths.file.with_name(f"{paths.file.name}-wal")
    times = [file.stat() for file in (paths.file, log, paths.pointer) if file.exists()]
    if paths.pointer.exists() and paths.events.exists():
        times.append(paths.events.stat())
    return max((status.st_mtime for status in times if status.st_size), default=0.0)
