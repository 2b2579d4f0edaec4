"""A command task made of a program and the command that scores it: the files that it needs, and its task.yaml.

The task is a folder like any other: it can be edited, checked and run again. Pure, but for a look at which words of
the command are files.
"""

import ast
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pace_async.errors import UsageError
from pace_async.fitness import Direction, fitness_of
from pace_async.programs.languages import LANGUAGES, PYTHON
from pace_async.task.kinds.command import PRINTED
from pace_async.task.spec import Bounds

PROGRAM = "{program}"
SCORES = ("score", "combined_score")
"""The entries of a printed JSON object of which the first that is there is the score."""
LONGEST_SCRIPT = 6_000
"""Characters of a scoring script that models are shown."""
FIRST_TIMEOUT_S = 1_800.0
"""The limit of the first evaluation, from which the usual one is guessed."""
SMALLEST = 1e-9
"""A score nearer to 0 says nothing of the size of others."""
SHORTEST_TIMEOUT_S, TIMES_AS_LONG = 10.0, 10.0
_OTHERS = {"sh": "shell", "js": "javascript", "ts": "typescript", "rb": "ruby", "txt": "text"}


@dataclass(frozen=True, slots=True)
class OwnProgram:
    """A program of the user's, as named, and the words of the command that scores it. `include` are further files and
    folders that the evaluation reads, relative to `folder`."""

    file: Path
    evaluate: tuple[str, ...]
    folder: Path
    include: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        """The task's name."""
        slug = re.sub(r"[^a-z0-9]+", "_", self.file.stem.lower()).strip("_")
        return slug if slug[:1].isalpha() else f"program_{slug}".rstrip("_")

    @property
    def patched(self) -> str:
        """The path that `patch -p1` finds the program by from `folder`, which takes none that leads outside."""
        whole = (self.folder / self.file).absolute()
        inside = ".." not in self.file.parts and whole.is_relative_to(self.folder)
        return (whole.relative_to(self.folder) if inside else Path(self.file.name)).as_posix()

    @property
    def language(self) -> str:
        """The language by the file's extension, which names an unknown one."""
        suffix = self.file.suffix.removeprefix(".").lower()
        if suffix in ("py", ""):
            return PYTHON if suffix else "text"
        known = (
            language.name for language in LANGUAGES.values() if language.suffix == suffix or suffix in language.fences
        )
        return next(known, _OTHERS.get(suffix, suffix))

    def scripts(self) -> tuple[Path, ...]:
        """The words of the command that are files or folders here."""
        return tuple(Path(word) for word in self.evaluate if PROGRAM not in word and (self.folder / word).exists())

    def sources(self) -> Mapping[str, Path]:
        """The files of the task's folder but the program and task.yaml, by their names there: what the command names,
        Python modules beside that and beside the program, and what is included. Raises UsageError."""
        sources: dict[str, Path] = {}
        for path in (*self.scripts(), *self.include):
            inside = _inside(path, self.folder)
            if not (self.folder / inside).exists():
                raise UsageError(f"There is no file or folder {str(path)!r} in {self.folder}.")
            for file in _files(self.folder / inside):
                sources[file.relative_to(self.folder).as_posix()] = file
        for path in self.scripts():
            if path.suffix == ".py":
                for module in sorted((self.folder / path).parent.glob("*.py")):
                    sources.setdefault(module.relative_to(self.folder).as_posix(), module)
        if self.language == PYTHON:
            for module in sorted((self.folder / self.file).parent.glob("*.py")):
                sources.setdefault(module.name, module)
        own = (self.folder / self.file).resolve()
        return {name: file for name, file in sources.items() if file.resolve() != own and name != self.file.name}


def own_program(program: Path, evaluate: str, include: Sequence[Path], folder: Path) -> OwnProgram:
    """Raises UsageError for a program that is not there, and for a command that cannot be split or does not name it."""
    if not (folder / program).is_file():
        raise UsageError(f"There is no program {str(program)!r}.")
    try:
        words = tuple(shlex.split(evaluate))
    except ValueError as error:
        raise UsageError(f"--evaluate {evaluate!r} is no command ({str(error).lower()}).") from None
    if not any(PROGRAM in word for word in words):
        raise UsageError(
            f"--evaluate {evaluate!r} does not say where the program's path belongs: write {PROGRAM} there, as in "
            f"'python score.py {PROGRAM}'."
        )
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", program.name):
        raise UsageError(f"{program.name!r} cannot name a program: use letters, digits, _, - and dots.")
    return OwnProgram(program, words, folder, tuple(include))


def task_yaml(
    own: OwnProgram,
    direction: Direction,
    about: str,
    *,
    bounds: Bounds,
    timeout_s: float,
    memory_mb: int,
    deterministic: bool,
    scores: Sequence[str] = SCORES,
) -> dict[str, Any]:
    """The fields of task.yaml. `about` is what the models are told of the problem."""
    in_words = fitness_of(direction, bounds.lower, bounds.upper).in_words
    command = " ".join(own.evaluate)
    return {
        "name": own.name,
        "kind": "command",
        "language": own.language,
        "background": f"{about.strip()}\n\nThe score is what `{command}` prints; {in_words}.",
        "coding_requirements": f"Keep what `{command}` uses of the program: its functions, arguments and output.",
        "direction": direction,
        "bounds": {"lower": bounds.lower, "upper": bounds.upper},
        "program": own.file.name,
        "evaluate": list(own.evaluate),
        "metrics": PRINTED,
        "score": list(scores),
        "feedback": True,
        "timeout_s": timeout_s,
        "memory_mb": memory_mb,
        "deterministic": deterministic,
    }


def about_program(own: OwnProgram, text: str, scripts: Mapping[str, str]) -> str:
    """What the program is for, where the user does not say: the first paragraph of its docstring. Then the scoring
    script, whole if it is short."""
    purpose = f"Improve {own.file.name}."
    if own.language == PYTHON:
        try:
            docstring = ast.get_docstring(ast.parse(text)) or ""
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            docstring = ""
        purpose = " ".join(docstring.partition("\n\n")[0].split()) or purpose
    return purpose + shown_scripts(scripts)


def shown_scripts(scripts: Mapping[str, str]) -> str:
    """The scoring scripts that are short enough to be shown."""
    short = {name: text.strip() for name, text in scripts.items() if len(text) <= LONGEST_SCRIPT}
    return "".join(f"\n\nIt is scored by {name}:\n\n{text}" for name, text in short.items())


def guessed_bounds(score: float, direction: Direction) -> Bounds:
    """Bounds of progress around the seed program's score: from half of its size worse to its whole size better. Of a
    score to be minimised that is positive, the best is 0."""
    size = abs(score) if abs(score) > SMALLEST else 1.0
    lower, upper = (score - size / 2, score + size) if direction == "maximize" else (score - size, score + size / 2)
    return Bounds(lower=_rounded(lower), upper=_rounded(upper))


def guessed_timeout(seconds: float) -> float:
    """The limit of one evaluation, in seconds, from what the seed program's took."""
    return float(math.ceil(max(SHORTEST_TIMEOUT_S, TIMES_AS_LONG * seconds)))


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def _inside(path: Path, folder: Path) -> Path:
    """The path relative to the folder. Raises UsageError for one outside."""
    whole = (folder / path).absolute()
    if ".." in path.parts or not whole.is_relative_to(folder):
        raise UsageError(f"{str(path)!r} is outside {folder}: begin where the program and its scorer are.")
    return whole.relative_to(folder)


def _files(place: Path) -> list[Path]:
    """The file, or the files of a folder that are not hidden."""
    if place.is_file():
        return [place]
    inside = (file for file in sorted(place.rglob("*")) if file.is_file())
    return [
        file
        for file in inside
        if not any(part.startswith(".") or part == "__pycache__" for part in file.relative_to(place).parts)
    ]
