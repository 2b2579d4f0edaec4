"""How a program of several files stands in a question: its files in the order of need, as many as there is room for.

Pure. First come the files in which it differs from the seed program, then those that the experiment names, then the
others that may change, then the rest. A file that has no room is told by its name, its lines and its signatures, so
that a model can ask for it in an experiment by naming it. So is one of data that may not change, by its first lines.
"""

import re
from pathlib import PurePosixPath

from pace_async.context.sections import Levels
from pace_async.programs.fileset import Program, changed_paths
from pace_async.programs.languages import LANGUAGES
from pace_async.programs.text import is_marked
from pace_async.task import TaskSpec

MOST_SIGNATURES = 40
"""Signatures of one file."""
FEW_DATA, FIRST_LINES = 400, 3
"""Characters up to which data that may not change are shown whole, and lines that are shown of a longer file."""
_SIGNATURE = re.compile(r"^[ \t]*(?:(?:async[ \t]+)?def|class)[ \t]+\w[^\n]*", re.MULTILINE)
_SHARES = (0.75, 0.5, 0.35, 0.25, 0.15, 0.08, 0.0)
"""Shares of the characters of all files that each further level shows whole at most."""


def files_levels(program: str, seed: str, spec: TaskSpec, head: str, experiment: str = "") -> Levels:
    """The program after `head`, at each level of detail. `experiment` is the text whose files come first after the
    changed ones."""
    files = Program.of(program).files
    ranks = _by_need(Program.of(program), Program.of(seed), spec, experiment)
    eligible = {path for path in files if ranks[path] < FIXED or not _is_much_data(path, files[path])}
    total = sum(map(len, files.values()))

    def text(level: int) -> str | None:
        if level > len(_SHARES):
            return None
        room = total if level == 0 else int(total * _SHARES[level - 1])
        whole, rest = list[str](), list[str]()
        for path in sorted(files, key=lambda path: (ranks[path], path)):
            if path in eligible and (level == 0 or len(files[path]) <= room):
                room -= len(files[path])
                whole.append(_whole(path, files[path], spec))
            else:
                rest.append(_in_short(path, files[path], spec))
        summary = ["Files that are not shown here, with their signatures or first lines:", *rest] if rest else []
        return "\n".join([head, *whole, *summary])

    return text


def files_text(program: str, seed: str, spec: TaskSpec, head: str) -> str:
    """The program after `head`, with every file whole."""
    return files_levels(program, seed, spec, head)(0) or ""


def may_change_text(spec: TaskSpec, program: str) -> str:
    """What may change of a program of several files."""
    globs = ", ".join(f"`{glob}`" for glob in spec.change)
    marked = " In a file with an evolve block only the lines of the block may change." if is_marked(program) else ""
    hidden = f", but none that matches {', '.join(f'`{glob}`' for glob in spec.hide)}" if spec.hide else ""
    return (
        f"Files that match {globs} may change{hidden}: they may be edited, added and removed (of several globs the "
        "last that matches counts). All others stay as they are. No name of a file or folder begins with a dot."
        f"{marked}"
    )


def size_of(program: str) -> str:
    """The characters and files of a program, in words."""
    known = Program.of(program)
    files = f" in {len(known.files)} file{'s' if len(known.files) != 1 else ''}" if known.is_set else ""
    return f"{known.characters} characters{files}"


FIXED = 3
"""The rank of a file that may not change and that nothing asks for."""


def _by_need(program: Program, seed: Program, spec: TaskSpec, experiment: str) -> dict[str, int]:
    """The rank of each file, from 0: what is needed most."""
    changed = set(changed_paths(seed, program))

    def rank(path: str) -> int:
        if path in changed:
            return 0
        if experiment and (
            path in experiment or re.search(rf"(?<![\w/.]){re.escape(PurePosixPath(path).name)}\b", experiment)
        ):
            return 1
        return 2 if spec.may_change(path) else FIXED

    return {path: rank(path) for path in program.files}


def _is_much_data(path: str, text: str) -> bool:
    suffix = PurePosixPath(path).suffix.removeprefix(".").lower()
    return len(text) > FEW_DATA and all(language.suffix != suffix for language in LANGUAGES.values())


def _whole(path: str, text: str, spec: TaskSpec) -> str:
    note = "" if spec.may_change(path) else " (may not change)"
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    ending = "" if text.endswith("\n") or not text else "\n"
    return f"FILE: {path}{note}\n{fence}{_fence_name(path)}\n{text}{ending}{fence}"


def _in_short(path: str, text: str, spec: TaskSpec) -> str:
    note = "" if spec.may_change(path) else ", may not change"
    head = f"{path} ({1 + text.count(chr(10))} lines{note})"
    if note and _is_much_data(path, text):
        return "\n".join([head, *(f"    {line[:200]}" for line in text.split("\n")[:FIRST_LINES])])
    signatures = [match[0].rstrip() for match in _SIGNATURE.finditer(text)] if path.endswith(".py") else []
    more = [f"    … and {len(signatures) - MOST_SIGNATURES} more"] if len(signatures) > MOST_SIGNATURES else []
    return "\n".join([head, *(f"    {line[:200]}" for line in signatures[:MOST_SIGNATURES]), *more])


def _fence_name(path: str) -> str:
    suffix = PurePosixPath(path).suffix.removeprefix(".").lower()
    known = (language.fences[0] for language in LANGUAGES.values() if language.suffix == suffix and language.fences)
    return next(known, suffix if suffix.isalnum() else "")
