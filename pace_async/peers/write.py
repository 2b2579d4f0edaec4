"""Writes the folder of a task that was made of an example.

Invariants: the example's files are copied byte for byte into the task's folder `example`, and are never written to. A
task is made in a hidden folder beside its own, and moved there when it is whole, or removed. A folder that is there
already is never written into.
"""

import os
import re
import secrets
import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pace_async.errors import UsageError
from pace_async.peers.example import COPY, Example, bytes_of, inside, lines_of, text_of
from pace_async.peers.importers import Importer
from pace_async.peers.seed import with_one_block
from pace_async.programs.languages import language_of
from pace_async.programs.text import is_marked
from pace_async.yaml_text import Dumper, dumped

MEMORY_MB = 2048
SETTINGS = "task.yaml"
_NOT_COPIED = re.compile(
    r"\..*|__pycache__|.*\.pyc|openevolve_output.*|results|results_.*|checkpoints?|wandb|logs|node_modules|venv"
    r"|.*\.(sqlite|sqlite3|db|db-wal|db-shm)"
)
_MOST_BYTES = 1 << 30
Bounds = tuple[float, float]
Stages = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """The texts of a task. `seed_note` says how the seed program differs from the example's, if it does. `skipped` are
    files and folders of the example that are not copied, and `named` those of them that its evaluator names."""

    name: str
    example: Example
    seed: str
    seed_note: str
    files: tuple[str, ...]
    skipped: tuple[str, ...]
    named: tuple[str, ...]


def name_of(folder: Path) -> str:
    """A task's name from the name of a folder."""
    name = re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.lower()).strip("_")
    return name if name[:1].isalpha() else f"task_{name}"


def drafted(name: str, example: Example, include: Sequence[str] = ()) -> Draft:
    """Reads the example's files. `include` names files and folders of it that are copied too. Raises UsageError."""
    program = example.folder / example.source
    try:
        text = "" if example.is_folder else example.seed or lines_of(bytes_of(program).decode("utf-8"))
    except UnicodeDecodeError:
        raise UsageError(f"{program} is not UTF-8 text.") from None
    seed, note = ("", "") if example.is_folder else with_one_block(text, example.language)
    skipped: list[str] = []
    files = (*_files(example.folder, "", example.secret, skipped), *_included(example, include, skipped))
    files = tuple(sorted(set(files)))
    size = sum((example.folder / name).stat().st_size for name in files)
    if size > _MOST_BYTES:
        raise UsageError(f"{example.folder} holds {size >> 20} MiB: move what the evaluator does not need elsewhere.")
    return Draft(name, example, seed, note, files, tuple(skipped), _mentioned_files(example, skipped))


def _included(example: Example, include: Sequence[str], skipped: list[str]) -> list[str]:
    """The files that `include` names, relative to the example. Takes them out of `skipped`. Raises UsageError."""
    included: list[str] = []
    for entry in include:
        name = inside(example.folder, entry, "What is included")
        place = example.folder / name
        paths = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
        files = [path.relative_to(example.folder).as_posix() for path in paths if "__pycache__" not in path.parts]
        if secret := sorted(example.secret & set(files)):
            raise UsageError(f"{example.folder / secret[0]} holds an API key, and is never copied.")
        for path in paths:
            if not _leads_into(path, example.folder.resolve()):
                raise UsageError(f"{path} is a link that leads out of the example: put a copy in its place.")
        included += files
    skipped[:] = [name for name in skipped if not _all_within(example.folder, name, included)]
    return included


def _all_within(folder: Path, name: str, included: Sequence[str]) -> bool:
    """Whether a file, or every file of a folder, is among those included."""
    place = folder / name
    if not place.is_dir():
        return name in included
    inner = {path.relative_to(folder).as_posix() for path in place.rglob("*") if path.is_file()}
    return inner <= set(included)


def _mentioned_files(example: Example, skipped: Sequence[str]) -> tuple[str, ...]:
    """Of the files that are not copied, those that the evaluator's text names."""
    text = text_of(example.folder / example.evaluator)
    return tuple(name for name in skipped if re.search(rf"[\"'/]{re.escape(Path(name).name)}[\"'/]", text))


def refuse_links_outside(folder: Path) -> None:
    """Raises UsageError for a link that leads out of the example. What it leads to would be copied, shown to programs
    and sent to models, and an example is somebody else's."""
    root = folder.resolve()
    try:
        for link in _links(folder):
            if not _leads_into(link, root):
                raise UsageError(
                    f"{link} is a link that leads out of the example: put a copy in its place, or remove it."
                )
    except OSError as error:
        raise UsageError(f"Cannot read {error.filename}: {error.strerror}.") from None


def _links(folder: Path) -> Iterator[Path]:
    """The links of an example, without those of what is not copied."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if _NOT_COPIED.fullmatch(entry.name):
                continue
            if entry.is_symlink():
                yield Path(entry.path)
            elif entry.is_dir():
                yield from _links(Path(entry.path))


def _leads_into(link: Path, root: Path) -> bool:
    try:
        return link.resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # links that lead to each other
        return False


def refuse_if_there(target: Path) -> None:
    """Raises UsageError."""
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} is there already: name another folder with --to, or remove it.")


@contextmanager
def unfinished_task(draft: Draft, importer: Importer, target: Path) -> Generator[Path]:
    """The folder of a task without its task.yaml. It is at `target` once the block has ended without an error. Raises
    UsageError if `target` is there, or cannot be written."""
    refuse_if_there(target)
    folder = target.parent / f".{target.name}.{secrets.token_hex(4)}"
    try:
        try:
            _fill(folder, draft, importer)
            importer.complete(folder, draft.example)
            yield folder
            shutil.rmtree(folder / "__pycache__", ignore_errors=True)  # of the evaluator, if it was tried
            refuse_if_there(target)
            folder.rename(target)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise UsageError(f"Cannot write {target}: {error.strerror or error}.") from None


def _fill(folder: Path, draft: Draft, importer: Importer) -> None:
    folder.mkdir(parents=True)
    for name in draft.files:
        (folder / COPY / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(draft.example.folder / name, folder / COPY / name)
    for name, part in importer.parts.items():
        if part.is_dir():
            shutil.copytree(part, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        else:
            shutil.copy(part, folder / name)
    if not draft.example.is_folder:
        (folder / draft.example.program).write_text(draft.seed, encoding="utf-8", newline="")
    if draft.example.about:
        (folder / "README.md").write_text(draft.example.about, encoding="utf-8")


def write_settings(folder: Path, draft: Draft, bounds: Bounds, stages: Stages, prefix: str = "") -> None:
    """Write the task.yaml of a folder. `prefix` is that of an environment."""
    (folder / SETTINGS).write_text(task_yaml(draft, bounds, stages, prefix), encoding="utf-8")


def task_yaml(draft: Draft, bounds: Bounds, stages: Stages, prefix: str = "") -> str:
    example = draft.example
    background = example.background or f"Improve {example.program} so that {example.evaluator} scores it higher."
    fields: list[tuple[str, dict[str, Any]]] = [
        (f"Made of an example of {example.peer} by `pace task import`. {COPY}/ holds the example as it was.", {}),
        ("", {"name": draft.name, "kind": example.kind, "background": background}),
        ("", {"coding_requirements": _requirements(draft)}),
        ("", {"direction": example.direction}),
        (
            f"Progress is measured between these scores. {_bounds_remark(example, bounds)}",
            {"bounds": {"lower": bounds[0], "upper": bounds[1]}},
        ),
        ("", {"target": example.target} if example.target is not None else {}),
        ("", {"program": example.program, "language": example.language}),
        ("", {"longest_program": example.longest_program} if example.longest_program else {}),
        *(("", {name: value}) for name, value in example.fields.items()),
        ("", {"environment": {"prefix": prefix}} if prefix else {}),
        ("", {"cascade": [{"name": name, "threshold": value} for name, value in stages]} if stages else {}),
        ("", {"timeout_s": example.timeout_s, "memory_mb": example.memory_mb or MEMORY_MB}),
        (
            "Say true if equal programs always have equal scores: then a repeat costs nothing.",
            {"deterministic": example.deterministic},
        ),
    ]
    lines: list[str] = []
    for comment, values in fields:
        lines += [f"# {comment}\n"] if comment else []
        lines += [_dumped(values)] if values else []
    return "".join(lines)


def _bounds_remark(example: Example, bounds: Bounds) -> str:
    if {example.target, example.upper} & set(bounds):
        return "One is the best that the example names, the other is from the seed program."
    return "They are guessed from the seed program: set them to yours."


def _requirements(draft: Draft) -> str:
    example = draft.example
    language = language_of(example.language)
    where = "several files" if example.is_folder else f"one file, {example.program}"
    sentences = [f"The program is {language.title or example.language} in {where}."]
    if is_marked(draft.seed):
        sentences.append("Only the lines between the two EVOLVE-BLOCK marks change; both marks stay.")
    sentences.append("Functions that are called from outside the changed part keep their names and parameters.")
    return " ".join((*sentences, *example.requirements))


class _Blocks(Dumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)  # pyright: ignore[reportUnknownMemberType]


_Blocks.add_representer(str, _text)


def _dumped(values: dict[str, Any]) -> str:
    cleaned = {name: _clean(value) for name, value in values.items()}
    return dumped(cleaned, _Blocks, width=100)


def _clean(value: Any) -> Any:
    """A text without spaces at the end of its lines, which YAML's blocks do not take."""
    if isinstance(value, str):
        return "\n".join(line.rstrip() for line in value.expandtabs(4).splitlines())
    return value


def _files(folder: Path, inside: str, secret: frozenset[str], skipped: list[str]) -> Iterator[str]:
    """The files to copy, relative to the example. Links are followed where they lead to a file."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda child: child.name):
            name = f"{inside}{entry.name}"
            if _NOT_COPIED.fullmatch(entry.name) or name in secret:
                if not entry.name.startswith((".", "__pycache__")):
                    skipped.append(name)
            elif entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path), f"{name}/", secret, skipped)
            elif entry.is_file():
                yield name
