"""Improves a program of one's own: makes a task of it beside the run, and measures how it scores before the search."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pace_async.errors import SeedProgramFails, UsageError
from pace_async.interface.evaluating import evaluate_program
from pace_async.interface.texts import text_of

if TYPE_CHECKING:
    from pace_async.interface.processes import Settings
    from pace_async.interface.reading import Run
    from pace_async.task.own_program import Direction, OwnProgram
    from pace_async.task.spec import Bounds

AGAIN_S = 60.0
"""A program that is scored in less is scored twice, to see whether its score repeats."""
FOLDER = "task"
MOST_NAMED = 8
"""Files that an error names."""
BEST_DIFF = "best.diff"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A task that was made: its folder, the program's score and seconds, whether two scores were equal (None if it was
    scored once), and what was guessed."""

    folder: Path
    score: float
    seconds: float
    repeats: bool | None
    bounds: "Bounds"
    timeout_s: float


def prepare_own_program(
    own: "OwnProgram",
    run_dir: Path,
    direction: "Direction",
    *,
    about: str = "",
    bounds: "Bounds | None" = None,
    timeout_s: float | None = None,
    memory_mb: int = 4096,
    scores: Sequence[str] = (),
    unsafe_no_sandbox: bool = False,
) -> Prepared:
    """Write the task into RUN/task and score the program in the sandbox. What is not given is guessed from its score
    and its time. Raises UsageError, and SeedProgramFails with the evaluator's words if the program has no score. Then
    the folder of the task is removed."""
    from pace_async.task.own_program import (
        FIRST_TIMEOUT_S,
        SCORES,
        about_program,
        guessed_bounds,
        guessed_timeout,
        shown_scripts,
        task_yaml,
    )
    from pace_async.task.spec import Bounds

    text = text_of(own.folder / own.file)
    sources = own.sources()
    scripts = {name.as_posix(): text_of(own.folder / name) for name in own.scripts() if (own.folder / name).is_file()}
    said = about + shown_scripts(scripts) if about else about_program(own, text, scripts)
    folder = run_dir / FOLDER
    if folder.exists():
        raise UsageError(f"{folder} is there already: name another run by --run-dir.")

    def write(found: "Bounds", limit: float, *, deterministic: bool) -> None:
        from pace_async.yaml_text import dumped

        fields = task_yaml(
            own,
            direction,
            said,
            bounds=found,
            timeout_s=limit,
            memory_mb=memory_mb,
            deterministic=deterministic,
            scores=scores or SCORES,
        )
        (folder / "task.yaml").write_text(dumped(fields), encoding="utf-8")

    def scored() -> tuple[float, float]:
        found = evaluate_program(folder, folder / own.file.name, unsafe_no_sandbox=unsafe_no_sandbox)
        if found["score"] is None:
            raise SeedProgramFails(
                f"{own.file} has no score: {found['outcome'].replace('_', ' ')}: {found['detail']}. The command ran in "
                f"a copy of the folder with {_named(list(sources))}; --include takes further files along."
            )
        return found["score"], found["seconds"]

    try:
        folder.mkdir(parents=True)
        (folder / own.file.name).write_text(text, encoding="utf-8")
        for name, source in sources.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / name)
        write(Bounds(lower=0, upper=1), timeout_s or FIRST_TIMEOUT_S, deterministic=False)
        score, seconds = scored()
        repeats = scored()[0] == score if seconds < AGAIN_S else None
        found = bounds or guessed_bounds(score, direction)
        limit = timeout_s or guessed_timeout(seconds)
        write(found, limit, deterministic=repeats is True)
    except OSError as error:
        remove_prepared(run_dir)
        raise UsageError(f"Cannot write {folder}: {error.strerror}.") from None
    except BaseException:
        remove_prepared(run_dir)
        raise
    return Prepared(folder, score, seconds, repeats, found, limit)


def remove_prepared(run_dir: Path) -> None:
    """Remove the task of a run that did not begin, and the run's folder if it holds nothing else."""
    shutil.rmtree(run_dir / FOLDER, ignore_errors=True)
    with suppress(OSError):
        run_dir.rmdir()


def write_difference(own: "OwnProgram", run_dir: Path) -> Path | None:
    """RUN/best.diff, which leads from the program to the best one and which `patch` takes. None if no
    program is better than the user's."""
    from difflib import unified_diff

    from pace_async.runtime.run_paths import RunPaths

    best = RunPaths(run_dir).best(own.file.suffix)
    if not best.is_file():
        return None
    name = own.file.as_posix()
    before, after = (text_of(file).splitlines(keepends=True) for file in (run_dir / FOLDER / own.file.name, best))
    if before == after:
        return None
    lines = [
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in unified_diff(before, after, f"a/{name}", f"b/{name}")
    ]
    (run_dir / BEST_DIFF).write_text("".join(lines), encoding="utf-8")
    return run_dir / BEST_DIFF


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
    from pace_async.interface.running import run
    from pace_async.runtime.run_paths import new_run_paths
    from pace_async.task.own_program import own_program

    own = own_program(Path(program), evaluate, [Path(one) for one in include], Path.cwd())
    folder = new_run_paths(own.name, None if run_dir is None else Path(run_dir)).folder
    prepared = prepare_own_program(own, folder, direction, about=about)
    found = run(prepared.folder, settings, run_dir=folder)
    write_difference(own, folder)
    return found


def _named(files: Sequence[str]) -> str:
    """The first of the files."""
    more = f" and {len(files) - MOST_NAMED} more" if len(files) > MOST_NAMED else ""
    return f"{', '.join(files[:MOST_NAMED])}{more}" if files else "nothing but the program"
