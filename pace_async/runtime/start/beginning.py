"""The programs with which a run begins: those of an earlier run, and a person's own.

The best program of an earlier run takes the place of the task's own, as candidate 0. All others are evaluated first, by
the way of all given programs (the inbox). So each score is this run's.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pace_async.aims import aims_of
from pace_async.config import SearchConfig
from pace_async.errors import UsageError
from pace_async.evaluate.local import refused
from pace_async.events import RunHeader
from pace_async.population.reading.best_programs import best_programs
from pace_async.population.reading.reader import open_readonly
from pace_async.programs.fileset import Program
from pace_async.runtime.run_paths import find_run_paths
from pace_async.task import Task
from pace_async.task.program_files import program_text

_WHICH = re.compile(r"best(?::([1-9]\d{0,8}))?|all")


class StartingProgram(NamedTuple):
    """A program that a run begins with, and what it is."""

    program: str
    about: str


def named_run(start_from: str) -> tuple[str, int | None]:
    """The run that a run starts from, and how many of its programs are taken over, None for all."""
    run, _, which = start_from.rpartition("@")
    match = _WHICH.fullmatch(which) if run else None
    if match is None:
        return start_from, 1
    return run, None if which == "all" else int(match[1] or 1)


def begun_with(search: SearchConfig, task: Task) -> tuple[Task, tuple[StartingProgram, ...]]:
    """The task with the seed program of the run, and the programs that are evaluated first, in order, each once. Raises
    UsageError for a run that cannot be read or has another task, and for what is no program of the task."""
    others = [entry for path in search.start_with for entry in _own(Path(path), task)]
    if search.start_from is not None:
        first, *more = _of_run(search.start_from, task)
        task, others = replace(task, program=first.program), [*more, *others]
    once = dict[str, StartingProgram]()
    for entry in others:
        once.setdefault(entry.program, entry)
    once.pop(task.program, None)
    return task, tuple(once.values())


def bounds_of(start_from: str) -> tuple[float, float]:
    """Between which scores the other run measures progress. Raises UsageError."""
    where, name = find_run_paths(named_run(start_from)[0]).population
    with open_readonly(where, name) as reader:
        header = reader.header()
    return header.lower, header.upper


def _of_run(start_from: str, task: Task) -> list[StartingProgram]:
    """The best programs of a run, the best first, each once."""
    run, most = named_run(start_from)
    try:
        paths = find_run_paths(run)
    except UsageError:
        if "@" in run:
            raise UsageError(f"{start_from!r} names no run: it is RUN, RUN@best, RUN@best:K or RUN@all.") from None
        raise
    where, name = paths.population
    with open_readonly(where, name) as reader:
        header = reader.header()
        if header.task != task.name:
            raise UsageError(
                f"Run {run} is of the task {header.task!r}, and a run of {task.name!r} cannot start from it."
            )
        if reason := _other_kind(header, task):
            raise UsageError(f"Run {run} has {reason} than {task.name!r} has now: start without it.")
        programs = reader.ask(best_programs, most)
    if not programs:
        raise UsageError(f"Run {run} has no program with a score yet: start without it.")
    if reason := refused(programs[0][1], task):
        raise UsageError(f"The best program of run {run} is no program of {task.name!r} as it is now: {reason}.")
    return [
        StartingProgram(program, f"candidate {number} of run {header.name}, where it scored {score:.6g}")
        for number, program, score in programs
        if not refused(program, task)
    ]


def _other_kind(header: RunHeader, task: Task) -> str:
    """Why the programs or the scores of the run mean something else, empty if they do not."""
    aims = [(aim.metric, aim.higher) for aim in aims_of(header.aims)]
    if header.direction != task.spec.direction or aims != [(aim.metric, aim.higher) for aim in task.spec.aims]:
        return "other objectives"
    return "programs in another language" if header.task_suffix not in (None, task.suffix) else ""


def _own(path: Path, task: Task) -> list[StartingProgram]:
    """The program at a path, or those in a folder, by name: its files, or of a task whose programs are sets of files
    its folders that have a file of the seed program, unless it has one itself."""
    places, several = [path], bool(task.spec.files)
    if path.is_dir() and (several or task.spec.has_folder):
        names = (task.spec.program, *task.spec.files) if several else tuple(Program.of(task.program).files)
        if not _has(path, names):
            places = sorted(folder for folder in path.iterdir() if _has(folder, names))
        if not places:
            raise UsageError(f"{path} has no file of a program of {task.name!r}, and no folder that has one.")
    elif path.is_dir():
        places = sorted(file for file in path.iterdir() if file.suffix == task.suffix and file.is_file())
        if not places:
            raise UsageError(f"{path} has no file that ends in {task.suffix}, so no program of {task.name!r}.")
    files = [place / task.spec.program if several and place.is_dir() else place for place in places]
    programs = [
        StartingProgram(program_text(file, task.spec), place.name) for file, place in zip(files, places, strict=True)
    ]
    for program, name in programs:
        if reason := refused(program, task):
            raise UsageError(f"{path}: {name} is no program of {task.name!r}: {reason}.")
    return programs


def _has(folder: Path, names: Iterable[str]) -> bool:
    return any((folder / name).is_file() for name in names)
