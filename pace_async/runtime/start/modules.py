"""Which Python modules the evaluator of a command task needs that are not installed here. Nothing is imported.

What is looked at: the evaluator's file, the files beside it that it imports, and requirements.txt beside it. An import
in a `try` that catches its failure is not needed.
"""

import importlib.util
import re
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

from pace_async.programs.parsed import needed_imports, statements_of
from pace_async.task import Task

_REQUIREMENT = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)")
_SERVICES = frozenset(
    {"aiohttp", "anthropic", "datasets", "google.genai", "httpx", "huggingface_hub", "litellm", "openai", "requests"}
    | {"urllib.request"}
)
"""Modules by which an evaluator reaches a service."""


def missing_modules(task: Task) -> tuple[str, ...]:
    """Modules that the evaluator imports and that are not there."""
    return _walked(task)[0]


def networked_modules(task: Task) -> tuple[str, ...]:
    """Modules that the evaluator imports and that need a network, which no sandbox has."""
    return _walked(task)[1]


def _walked(task: Task) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(imported modules that are not there, those that need a network)."""
    evaluator = _evaluator(task)
    if evaluator is None:
        return (), ()
    places = [evaluator.parent, *(task.folder / name for name in task.spec.path), task.folder]
    missing: list[str] = []
    services: list[str] = []
    visited: set[Path] = set()
    files = [evaluator, task.folder / task.spec.program]
    while files:
        file = files.pop()
        if file in visited or file.suffix != ".py":
            continue
        visited.add(file)
        for name in _imports(file):
            beside = _beside(name, places)
            if beside is None:
                services += [service for service in _SERVICES if name == service or name.startswith(f"{service}.")]
                if not _installed(name):
                    missing.append(name.split(".")[0])
            elif beside.is_file():
                files.append(beside)
            else:
                missing.append(name)
    return tuple(dict.fromkeys(missing)), tuple(dict.fromkeys(services))


def missing_requirements(task: Task) -> tuple[str, ...]:
    """Packages of the evaluator's requirements.txt that are not installed."""
    evaluator = _evaluator(task)
    file = evaluator.parent / "requirements.txt" if evaluator is not None else None
    if file is None or not file.is_file():
        return ()
    matches = (_REQUIREMENT.match(line.strip()) for line in file.read_text("utf-8", errors="replace").splitlines())
    return tuple(match[1] for match in matches if match is not None and not _distributed(match[1]))


def _evaluator(task: Task) -> Path | None:
    """The Python file that evaluates, or None if a command of another kind does."""
    words = task.spec.evaluate or (task.spec.evaluator,)
    files = (task.folder / word for word in words if word.endswith(".py"))
    return next((file for file in files if file.is_file()), None)


def _imports(file: Path) -> Iterator[str]:
    """The absolute imports that a file cannot work without, with dots."""
    try:
        text = file.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return
    yield from needed_imports(statements_of(text))


def _beside(name: str, places: Sequence[Path]) -> Path | None:
    """The file of a module of the task. None for another module. A module that a package of the task lacks is a file
    that is not there."""
    parts = name.split(".")
    for place in places:
        whole = place.joinpath(*parts)
        if whole.with_suffix(".py").is_file():
            return whole.with_suffix(".py")
        if (whole / "__init__.py").is_file():
            return whole / "__init__.py"
        if (place / parts[0] / "__init__.py").is_file():
            return whole.with_suffix(".py")
        if whole.is_dir() and any(whole.glob("*.py")):
            return next(whole.glob("*.py"))
    return None


def _installed(name: str) -> bool:
    first = name.split(".")[0]
    if first in sys.stdlib_module_names or first in sys.builtin_module_names:
        return True
    try:
        return importlib.util.find_spec(first) is not None
    except (ImportError, ValueError):
        return False


def _distributed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
