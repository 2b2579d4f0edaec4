"""What is read from an example of another project, and what the readers share. Nothing of an example is ever run here.

An example's Python is read by its syntax tree, its YAML as plain data.
"""

import ast
import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast

from pace_async.errors import UsageError
from pace_async.programs.languages import LANGUAGES, language_called
from pace_async.programs.parsed import NOT_PYTHON, parsed
from pace_async.yaml_text import parsed as parsed_yaml

COPY = "example"
"""The folder of a task that holds the example, byte for byte."""
INTERFACES = "interfaces"
"""The folder of a task that holds what evaluators import of the example's project."""
MOST_BYTES = 4 << 20
"""Of a file of an example that is read."""
MOST_VALUES = 100_000
"""Values and pieces of text that a setting may hold."""
SCRATCH_MB = 512
NO_PROGRAMS = frozenset({".pyc", ".md", ".yaml", ".yml", ".ipynb", ".png", ".jpg", ".pdf", ".log", ".sh", ".csv"})
LANGUAGE_BY_SUFFIX = {
    "cc": "c++",
    "cxx": "c++",
    "cu": "cuda",
    "js": "javascript",
    "ts": "typescript",
    "swift": "swift",
    "lean": "lean",
    "metal": "metal",
    "sv": "systemverilog",
    "wl": "wolfram",
    "json": "json",
    "md": "markdown",
    "sql": "sql",
    "txt": "text",
}


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the user says about an example. Nothing where it is to be found."""

    program: str = ""
    config: str = ""
    score: str = ""
    evaluator: str = ""
    include: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Example:
    """An example as a task needs it. `source` is the file of the seed program, or its folder where `fields` have
    `change`, relative to the example, and `seed` its text where the example has none. `fields` are
    those of task.yaml that only the task's kind has. `stages` are (name, threshold) of the cheap stages. `target` is
    the best score known, and `upper` the best one that can be, where the example says so. `packages` are what programs
    and evaluator import and pace does not bring. `taken` and `left` say, a line each, what was taken over from where,
    and what was not. `secret` are files that must not be copied. `about` is the text of the task's README."""

    peer: str
    folder: Path
    evaluator: str
    source: str
    language: str
    background: str
    timeout_s: float
    fields: Mapping[str, Any]
    taken: tuple[str, ...]
    left: tuple[str, ...] = ()
    kind: Literal["command", "process"] = "command"
    requirements: tuple[str, ...] = ()
    memory_mb: int | None = None
    direction: Literal["maximize", "minimize"] = "maximize"
    target: float | None = None
    upper: float | None = None
    stages: tuple[tuple[str, float], ...] = ()
    longest_program: int | None = None
    deterministic: bool = False
    packages: tuple[str, ...] = ()
    secret: frozenset[str] = frozenset()
    about: str = ""
    seed: str = ""

    @property
    def is_folder(self) -> bool:
        """Whether the program is a folder, which stays where it is in the example."""
        return "change" in self.fields

    @property
    def program(self) -> str:
        """The name of the seed program's file or folder in the task."""
        return f"{COPY}/{self.source}" if self.is_folder else PurePosixPath(self.source).name


def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a Python file. Raises UsageError."""
    read = bytes_of(path)
    try:
        return parsed(read.decode("utf-8-sig"), str(path))
    except NOT_PYTHON as error:
        raise UsageError(f"{path} is not Python that can be read: {str(error)[:200]}.") from None


def text_of(path: Path) -> str:
    """A text file, whatever its encoding. Raises UsageError."""
    return lines_of(bytes_of(path).decode("utf-8", "replace"))


def lines_of(text: str) -> str:
    """A text with every end of a line as a line feed."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def bytes_of(path: Path) -> bytes:
    """A file of at most MOST_BYTES. Raises UsageError."""
    try:
        with path.open("rb") as stream:
            read = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from None
    if len(read) > MOST_BYTES:
        raise UsageError(f"{path} is longer than {MOST_BYTES >> 20} MiB.")
    return read


def is_bounded(value: Any) -> bool:
    """Whether a value, written out, has no more than MOST_VALUES parts and no number beyond 64 bits. One list may stand
    in it many times, also within itself."""
    left, open_values = MOST_VALUES, [value]
    while open_values:
        item = open_values.pop()
        inner: list[Any] = []
        if isinstance(item, dict):
            inner = [part for pair in cast("dict[Any, Any]", item).items() for part in pair]
        elif isinstance(item, list | tuple | set):
            inner = list(cast("list[Any]", item))
        elif isinstance(item, int) and abs(item) >= 1 << 63:
            return False
        left -= 1 + len(inner) + (len(item) // 16 if isinstance(item, str | bytes) else 0)
        if left < 0:
            return False
        open_values += inner
    return True


def names_of(tree: ast.Module) -> set[str]:
    """The names that a module defines or imports at its top level, also within `if` and `try`."""
    names: set[str] = set()
    for node in top_level(tree.body):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Import() | ast.ImportFrom():
                names.update(alias.asname or alias.name.split(".")[0] for alias in node.names)
            case ast.Assign():
                names.update(target.id for target in node.targets if isinstance(target, ast.Name))
            case _:
                pass
    return names


def top_level(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported, without those of functions and classes."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            for part in ("body", "orelse", "finalbody", "handlers"):
                inner = getattr(node, part, [])
                yield from top_level(
                    [
                        statement
                        for each in inner
                        for statement in (each.body if isinstance(each, ast.ExceptHandler) else [each])
                    ]
                )


def mapping_of(path: Path) -> dict[str, Any]:
    """A YAML file as plain data. Raises UsageError."""
    read = bytes_of(path)
    try:
        value = parsed_yaml(read.decode("utf-8-sig"))
    except ValueError as error:
        raise UsageError(f"{path} is not YAML that can be read: {error}") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UsageError(f"{path} holds no mapping of settings.")
    if not is_bounded(value):
        raise UsageError(
            f"{path} holds more than {MOST_VALUES:,} values, its aliases written out, or too large a number."
        )
    return {str(key): setting for key, setting in cast("dict[Any, Any]", value).items()}


def section(config: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The first of these sections that is there, empty if none is."""
    for name in names:
        value = config.get(name)
        if isinstance(value, dict):
            return {str(key): setting for key, setting in cast("dict[Any, Any]", value).items()}
    return {}


def number_of(value: Any) -> float | None:
    """A positive, finite number, or None."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
    return float(value) if known else None


def language_of_program(program: str, language_name: str) -> str:
    """The language as task.yaml names it: from what the example says, else from the program's suffix."""
    suffix = Path(program).suffix[1:].lower()
    by_suffix = next((item.name for item in LANGUAGES.values() if item.suffix.lower() == suffix), None)
    if language_name:
        known = language_called(language_name)
        return (
            known.name
            if known is not None
            else "".join(item if item.isalnum() else "_" for item in language_name.lower())
        )
    return by_suffix or LANGUAGE_BY_SUFFIX.get(suffix, suffix if suffix.isalnum() and suffix[0].isalpha() else "text")


def find_program(folder: Path, stems: Sequence[str], program: str, suffix: str = "") -> str:
    """The seed program's file, relative to the example. Raises UsageError if it is not there, or if it could be one of
    several."""
    if program:
        return inside(folder, program, "The seed program")
    for stem in stems:
        matches = sorted(
            path.name
            for path in folder.glob(f"{stem}*")
            if path.is_file() and path.stem == stem and path.suffix and path.suffix.lower() not in NO_PROGRAMS
        )
        fitting = [name for name in matches if suffix and Path(name).suffix.lower() == suffix.lower()] or matches
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise UsageError(f"{folder} has several seed programs ({', '.join(fitting)}): name one with --program.")
    looked = " and ".join(f"{stem}.*" for stem in stems)
    raise UsageError(f"{folder} has no seed program: looked for {looked}. Name it with --program FILE.")


def inside(folder: Path, path: str, role: str) -> str:
    """A file or folder of the example that the user names, relative to it. `role` says what it is for. Raises
    UsageError if it is not there, or leads out of the example."""
    if not path or not (folder / path).exists():
        raise UsageError(f"{folder} has no file {path!r}.")
    if not (folder / path).resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{role} must lie in {folder}, and {path!r} does not.")
    return PurePosixPath(os.path.relpath((folder / path).resolve(), folder.resolve())).as_posix()


def nested(folder: Path, names: Sequence[str]) -> str:
    """What to say of evaluators in folders of an example that has none beside its settings. Empty without any."""
    paths = sorted(path.relative_to(folder).as_posix() for name in names for path in folder.glob(f"*/{name}"))
    return f" --evaluator FILE names one in a folder: {', '.join(paths)}." if paths else ""


def command_fields(
    evaluator: str,
    evaluate: Sequence[str],
    score: Sequence[str],
    *,
    feedback: bool,
    valid: str | None = None,
) -> dict[str, Any]:
    """The fields of a command task whose evaluator is a file of the example."""
    return {
        "evaluate": list(evaluate),
        "path": [INTERFACES, *([COPY] if "/" in evaluator else [])],
        "score": list(score),
        **({"valid": valid} if valid else {}),
        "feedback": feedback,
        "scratch_mb": SCRATCH_MB,
    }


def settings_files(folder: Path, sections: Collection[str]) -> list[str]:
    """The YAML files of an example that have one of these sections. One that cannot be read is left out."""
    names: list[str] = []
    for path in sorted((*folder.glob("*.yaml"), *folder.glob("*.yml"))):
        try:
            if set(sections) & set(mapping_of(path)):
                names.append(path.name)
        except UsageError:
            continue
    return names


def another(option: str, others: Sequence[str]) -> str:
    """The note that a file could be another one."""
    return f"{option} names another: {', '.join(others)}"


def evaluator_line(evaluator: str, called: str, others: Sequence[str]) -> str:
    """What to say of the evaluator's file, how it is called, and which others there are."""
    return f"evaluator: {evaluator} ({'; '.join((called, *([another('--evaluator', others)] if others else [])))})"


def wanted_config(folder: Path, path: str) -> str:
    """The settings that the user names: a file of the example, or another one, as an absolute path. Raises
    UsageError."""
    if (folder / path).is_file():
        return path
    if Path(path).is_file():
        return str(Path(path).resolve())
    raise UsageError(f"{folder} has no file {path!r}, and there is none of this name here.")


def of_the_readme(folder: Path, missing: str) -> tuple[str, str]:
    """(background, where it is from) where the settings have no text, which is called `missing`."""
    text = _first_paragraph(folder)
    return text, f"README (there is no {missing})" if text else f"none (there is no {missing} and no README)"


def _first_paragraph(folder: Path) -> str:
    """The first text of the README that is not a heading, in one line. Nothing if there is none."""
    readme = next((path for path in sorted(folder.glob("README*")) if path.is_file()), None)
    if readme is None:
        return ""
    text = text_of(readme)
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line.strip() and not line.startswith(("#", "!", "<", "[", "`"))]
        if lines:
            return " ".join(" ".join(lines).split())
    return ""
