"""A task made in Python: a scorer that is a function and a seed program, written as a task's ordinary folder.

Invariant: the folder's name has a digest of its files, so equal tasks share a folder, a task that is changed gets
another, and a run can be resumed by a later process. All later code treats it as any other task.
"""

import ast
import hashlib
import inspect
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pace_async.errors import UsageError
from pace_async.interface.source_code import source_with_needs
from pace_async.programs.reading import given_text, text_of

MADE_HERE = Path("~/.cache/pace/tasks")
SEED, EVALUATOR, CATALOGUE = "initial.py", "evaluator.py", "catalogue.yaml"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_DIRECTIONS = {"max": "maximize", "min": "minimize"}
_WRITTEN = {"task.yaml", SEED, EVALUATOR, CATALOGUE, "scorer_code.py", "instances_code.py"}


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task whose folder is written to `folder`, under ~/.cache/pace/tasks, when it is made. Commands and functions
    take it as they take the folder.

    `score(instances, outputs)` is a function at the top of a file, which returns a number or a dictionary with `score`
    and further numbers, and raises ValueError for an output that is not allowed. It may take what an evaluator may take
    (docs/tasks.md). The lines that it needs of its file are copied. Other files that it imports stand in `beside`.
    `instances` are JSON values, or a function of the seed that returns them. `seed` is a file or a text of several
    lines. Without marks of an evolve block all of it may change. `entry` is its function that is called with an
    instance, by default its only one. `bounds` are the scores between which progress is measured. `background` is by
    default the docstring of `score`. `catalogue` has the content of a catalogue.yaml, and `fields` any other fields of
    task.yaml. Raises UsageError."""

    name: str
    seed: str | Path
    score: Callable[..., object]
    bounds: tuple[float, float]
    direction: Literal["max", "min", "maximize", "minimize"] = "max"
    entry: str = ""
    instances: Sequence[object] | Callable[..., Sequence[object]] = ({},)
    background: str = ""
    coding_requirements: str = ""
    timeout_s: float = 60.0
    memory_mb: int = 1024
    deterministic: bool = True
    catalogue: Mapping[str, object] | None = None
    beside: Sequence[str | Path] = ()
    fields: Mapping[str, object] = field(default_factory=dict[str, object])
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        files = _files_of(self)
        digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:12]
        folder = MADE_HERE.expanduser() / f"{self.name}-{digest}"
        object.__setattr__(self, "folder", folder)
        if not _holds(folder, files):
            _write(folder, files, self.name)

    def __fspath__(self) -> str:
        return str(self.folder)

    def write(self, folder: str | Path) -> Path:
        """Write the same files into a folder of yours, such as tasks/NAME, where commands find the task by its name.
        Raises UsageError for a folder that is there already."""
        to = Path(folder)
        if to.exists():
            raise UsageError(f"{to} is there already: name another, or remove it.")
        _write(to, _files_of(self), self.name)
        return to


def _files_of(task: Task) -> dict[str, str]:
    """The text of each file of the task's folder."""
    from pace_async.yaml_text import dumped

    if not _NAME.fullmatch(task.name):
        raise UsageError(f"{task.name!r} cannot name a task: use small letters, digits and _, and begin with a letter.")
    seed, entry = _seed_of(task)
    scorer, scorer_code, file = source_with_needs(task.score, "score")
    files = {SEED: seed, "scorer_code.py": scorer_code}
    if callable(task.instances):
        maker, files["instances_code.py"], _ = source_with_needs(task.instances, "instances")
        instances = f"from instances_code import {maker} as instances\n"
    else:
        instances = f"\n\ndef instances(seed):\n    return json.loads({_as_json(task.instances)!r})\n"
    files[EVALUATOR] = _evaluator(scorer, file, instances)
    if task.catalogue is not None:
        files[CATALOGUE] = dumped(dict(task.catalogue))
    files["task.yaml"] = dumped(_yaml_of(task, entry))
    for path in map(Path, task.beside):
        if path.name in files or path.name in _WRITTEN:
            raise UsageError(f"beside: {path.name!r} is the name of another file of the task.")
        files[path.name] = text_of(path)
    return files


def _yaml_of(task: Task, entry: str) -> dict[str, Any]:
    lower, upper = task.bounds
    return {
        "name": task.name,
        "background": task.background or inspect.getdoc(task.score) or "",
        "coding_requirements": task.coding_requirements or f"Keep the function {entry}(instance).",
        "direction": _DIRECTIONS.get(task.direction, task.direction),
        "bounds": {"lower": lower, "upper": upper},
        "program": SEED,
        "evaluator": EVALUATOR,
        **({"catalogue": CATALOGUE} if task.catalogue is not None else {}),
        "entry": entry,
        "timeout_s": task.timeout_s,
        "memory_mb": task.memory_mb,
        "deterministic": task.deterministic,
        **task.fields,
    }


def _seed_of(task: Task) -> tuple[str, str]:
    """The seed program with its marks, and its entry."""
    from pace_async.programs.parsed import NOT_PYTHON, parsed
    from pace_async.programs.text import BLOCK_END, BLOCK_START, END_MARK, START_MARK

    text = given_text(task.seed)
    text = text_of(Path(task.seed)) if text is None else text
    try:
        functions = [node.name for node in parsed(text).body if isinstance(node, ast.FunctionDef)]
    except NOT_PYTHON as error:
        raise UsageError(f"seed is not a Python program: {error}.") from None
    if not task.entry and len(functions) != 1:
        raise UsageError(f"entry is missing: the seed program has {len(functions)} functions; name the one to call.")
    if START_MARK not in text and END_MARK not in text:
        text = f"{BLOCK_START}\n{text.strip()}\n{BLOCK_END}\n"
    return text, task.entry or functions[0]


def _as_json(instances: Sequence[object]) -> str:
    try:
        return json.dumps(list(instances), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"instances must be JSON values: {error}.") from None


def _evaluator(scorer: str, file: str, instances: str) -> str:
    return f'''"""Scores by `{scorer}`, which comes from {file}. Written by pace_async.Task."""

import functools
import json

import scorer_code
{instances}

@functools.wraps(scorer_code.{scorer})
def score(*given, **named):
    found = scorer_code.{scorer}(*given, **named)
    return found if isinstance(found, dict) else {{"score": found}}
'''


def _holds(folder: Path, files: Mapping[str, str]) -> bool:
    """Whether the folder holds these files, as they are."""
    try:
        return all((folder / name).read_text(encoding="utf-8") == text for name, text in files.items())
    except (OSError, UnicodeDecodeError):
        return False


def _write(folder: Path, files: Mapping[str, str], name: str) -> None:
    """Write the folder whole, in place of what is there. Raises UsageError for files that make no task."""
    from pace_async.task import load_task

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".task.") as draft:
            staging = Path(draft).resolve() / "task"
            staging.mkdir()
            for file, text in files.items():
                (staging / file).write_text(text, encoding="utf-8")
            try:
                load_task(str(staging))
            except UsageError as error:
                message = (
                    str(error).replace(f"{staging}/task.yaml", f"task {name!r}").replace(f"{staging}/{SEED}", "seed")
                )
                raise UsageError(message) from None
            if folder.exists():
                shutil.rmtree(folder)
            staging.rename(folder)
    except OSError as error:
        if _holds(folder, files):  # another process was faster
            return
        raise UsageError(f"Cannot write the task to {folder}: {error.strerror}.") from None
