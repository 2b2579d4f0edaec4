"""Improves a program of one's own: makes a task of it beside the run, and measures how it scores before the search."""

import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pace_async.errors import SeedProgramFails, UsageError
from pace_async.interface.evaluating import evaluate_program
from pace_async.programs.reading import text_of
from pace_async.runtime.best_program import CRLF
from pace_async.runtime.run_paths import RunPaths, new_run_paths

if TYPE_CHECKING:
    from pace_async.config import Config
    from pace_async.fitness import Direction
    from pace_async.interface.processes import Settings
    from pace_async.interface.reading import Run
    from pace_async.task.own_program import OwnProgram
    from pace_async.task.spec import Bounds

AGAIN_S = 60.0
"""A program that is scored in less is scored twice, to see whether its score repeats."""
MOST_NAMED = 8
"""Files that an error names."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A task that was made: its folder, the program's score and seconds, the second score (None if it was scored once),
    and what was guessed. `made` are the folders that were not there before, the innermost first."""

    folder: Path
    score: float
    seconds: float
    again: float | None
    bounds: "Bounds"
    timeout_s: float
    made: tuple[Path, ...]


class Writes(Protocol):
    """Writes task.yaml."""

    def __call__(self, bounds: "Bounds", limit: float, /, *, deterministic: bool) -> None: ...


def refuse_unless_written(config: "Config", *, asked: bool) -> None:
    """Before the program is scored, which may take long. Raises UsageError where nothing writes its code or decides
    what to try, without a model's key if it is to be `asked`, and under a budget without its price."""
    import os

    from pace_async.implement.assemble import only_edits
    from pace_async.implement.shares import models_of
    from pace_async.providers.base import IMPLEMENTER
    from pace_async.providers.keys import refuse_without_keys
    from pace_async.registry.advisors import advisor_of
    from pace_async.runtime.start.asked import refuse_without_prices

    writer, advisor = config.implementer.model, advisor_of(config.advisor.model)
    models = models_of(writer)
    if only_edits(writer):
        raise UsageError("Name a model that writes the code: --implementer MODEL, as in gemini/gemini-3.1-pro-preview.")
    if not models and (advisor.small or not advisor.has_model):
        raise UsageError(
            f"{writer} writes the code, and something has to decide what to try: name a language model, as in "
            "--advisor api:gemini/gemini-3.1-pro-preview."
        )
    if asked:
        refuse_without_keys(models, config.implementer.api_base, os.environ, IMPLEMENTER)
    refuse_without_prices(config)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the user says of a task. The rest is guessed from the score of the program and its time."""

    name: str | None = None
    about: str = ""
    bounds: "Bounds | None" = None
    timeout_s: float | None = None
    memory_mb: int = 4096
    scores: Sequence[str] = ()
    unsafe_no_sandbox: bool = False


def prepare_own_program(own: "OwnProgram", run_dir: Path, direction: "Direction", given: Given) -> Prepared:
    """The task in RUN/task, as `make_own_task` makes it, and the program's path beside it. Raises UsageError and
    SeedProgramFails. Then nothing is left."""
    paths = RunPaths(run_dir)
    if paths.own_task.exists():
        raise UsageError(f"{paths.own_task} is there already: name another run by --run-dir.")
    prepared = make_own_task(own, paths.own_task, direction, given)
    try:
        ends = f"{CRLF}\n" if b"\r\n" in (own.folder / own.file).read_bytes() else ""
        paths.own_program.write_text(f"{own.patched}\n{ends}", encoding="utf-8")
    except OSError as error:
        remove_prepared(run_dir, prepared.made)
        raise UsageError(f"Cannot write {paths.own_program}: {error.strerror}.") from None
    return prepared


def make_own_task(own: "OwnProgram", folder: Path, direction: "Direction", given: Given) -> Prepared:
    """Write the task into a new folder and score the program in the sandbox. Raises UsageError, and SeedProgramFails
    with the evaluator's words if the program has no score. Then the folder is removed."""
    from pace_async.task.own_program import SCORES, about_program, shown_scripts, task_yaml
    from pace_async.yaml_text import dumped

    text = text_of(own.folder / own.file)
    sources = own.sources()
    scripts = {file.as_posix(): text_of(own.folder / file) for file in own.scripts() if (own.folder / file).is_file()}
    background = given.about + shown_scripts(scripts) if given.about else about_program(own, text, scripts)

    def write(found: "Bounds", limit: float, *, deterministic: bool) -> None:
        fields = task_yaml(
            own,
            direction,
            background,
            bounds=found,
            timeout_s=limit,
            memory_mb=given.memory_mb,
            deterministic=deterministic,
            scores=given.scores or SCORES,
        )
        fields["name"] = given.name or own.name
        (folder / "task.yaml").write_text(dumped(fields), encoding="utf-8")

    def scored() -> tuple[float, float]:
        trial = evaluate_program(folder, folder / own.file.name, unsafe_no_sandbox=given.unsafe_no_sandbox)
        if trial["score"] is None:
            longer = "; --timeout SECONDS gives it longer" if trial["outcome"] == "timeout" else ""
            raise SeedProgramFails(
                f"{own.file} has no score: {trial['outcome'].replace('_', ' ')}: {trial['detail']}{longer}. The "
                f"command ran in a copy of the folder with {_file_names(list(sources))}; --include takes further files "
                "along."
            )
        return trial["score"], trial["seconds"]

    with new_task_folder(folder) as new_folders:
        (folder / own.file.name).write_text(text, encoding="utf-8")
        for path, source in sources.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / path)
        return Prepared(folder, *measured(str(own.file), scored, write, direction, given), new_folders)


@contextmanager
def new_task_folder(folder: Path) -> Generator[tuple[Path, ...]]:
    """A new folder for a task, and the folders that were made for it, the innermost first. If the body raises, they are
    removed. Raises UsageError for a folder that is there, and for one that cannot be written."""
    if folder.exists():
        raise UsageError(f"{folder} is there already: name another with --folder, or remove it.")
    new_folders = tuple(parent for parent in folder.parents if not parent.exists())
    try:
        folder.mkdir(parents=True)
        yield new_folders
    except OSError as error:
        _remove(folder, new_folders)
        raise UsageError(f"Cannot write {folder}: {error.strerror}.") from None
    except BaseException:
        _remove(folder, new_folders)
        raise


def measured(
    program: str, scored: Callable[[], tuple[float, float]], write: "Writes", direction: "Direction", given: Given
) -> "tuple[float, float, float | None, Bounds, float]":
    """Score the seed program, twice if that is quick, and write task.yaml with what is given or guessed from that:
    (score, seconds, second score, bounds, limit in seconds). Raises UsageError for bounds that do not hold the
    score."""
    from pace_async.task.own_program import FIRST_TIMEOUT_S, guessed_bounds, guessed_timeout
    from pace_async.task.spec import Bounds

    write(Bounds(lower=0, upper=1), given.timeout_s or FIRST_TIMEOUT_S, deterministic=False)
    score, seconds = scored()
    again = scored()[0] if seconds < AGAIN_S else None
    bounds = given.bounds or guessed_bounds(score, direction)
    if not bounds.lower <= score <= bounds.upper:
        raise UsageError(
            f"{program} scores {score:.10g}, which is not between the bounds {bounds.lower:g} and {bounds.upper:g}: "
            "name others that hold it, or leave them out."
        )
    limit = given.timeout_s or guessed_timeout(seconds)
    write(bounds, limit, deterministic=again == score)
    return score, seconds, again, bounds, limit


def remove_prepared(run_dir: Path, made: Sequence[Path]) -> None:
    """Remove the task of a run that did not begin, and the folders that were made for it and hold nothing else."""
    paths = RunPaths(run_dir)
    with suppress(OSError):
        paths.own_program.unlink(missing_ok=True)
    _remove(paths.own_task, made)


def _remove(task: Path, made: Sequence[Path]) -> None:
    """Remove a task, and those folders above it that were made for it and hold nothing else."""
    shutil.rmtree(task, ignore_errors=True)
    with suppress(OSError):
        for folder in made:
            folder.rmdir()


def optimize(
    program: str | Path,
    evaluate: str,
    *,
    direction: "Direction",
    about: str = "",
    include: Sequence[str | Path] = (),
    settings: "Settings | None" = None,
    run_dir: str | Path | None = None,
) -> "Run":
    """Improve a program of your own, as `pace optimize` does, and return the run. `evaluate` is the command that prints
    the program's score, with {program} where its path belongs. `settings` name the implementer and the limits, such as
    {"implementer.model": "openai/gpt-5", "stop.budget": 5}. RUN/best.diff leads from the program to the best one.
    Raises PaceError."""
    from pace_async.configure import resolve
    from pace_async.interface.running import run
    from pace_async.task.own_program import own_program

    refuse_unless_written(resolve(overrides=settings or {}), asked=True)
    own = own_program(Path(program), evaluate, [Path(path) for path in include], Path.cwd())
    folder = new_run_paths(own.name, None if run_dir is None else Path(run_dir)).folder
    prepared = prepare_own_program(own, folder, direction, Given(about=about))
    try:
        return run(prepared.folder, settings, run_dir=folder)
    finally:
        if not RunPaths(folder).exists:
            remove_prepared(folder, prepared.made)


def _file_names(files: Sequence[str]) -> str:
    """The first of the files."""
    more = f" and {len(files) - MOST_NAMED} more" if len(files) > MOST_NAMED else ""
    return f"{', '.join(files[:MOST_NAMED])}{more}" if files else "nothing but the program"
