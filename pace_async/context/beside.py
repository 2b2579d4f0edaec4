"""A program beside the parent: as its shortest difference, or as an outline of it by functions. Pure.

Of what has no room as a difference an outline says more than a part of it: which functions are new, which differ, and
what they are for. A part would say what the program is not.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, groupby, islice, takewhile

from rapidfuzz.distance import Indel

from pace_async.context.sections import Levels
from pace_async.context.texts import fenced, score_of
from pace_async.context.value import Context
from pace_async.programs.fileset import Program, changed_paths, is_fileset
from pace_async.programs.languages import PYTHON
from pace_async.programs.outline import outline
from pace_async.search.state import Member
from pace_async.task import TaskSpec

MOST_LINES = 4000
"""Lines of a program that is compared in the event loop, in a few milliseconds at most."""
AROUND = 1
"""Unchanged lines shown around a change."""
REMOVED = 3
"""Lines shown of a longer run of removed ones. The parent has them all."""
LONG_DIFFERENCE = 2000
"""Characters of a difference of which the beginning alone is worth showing."""
BEGINNINGS = (0.67, 0.4, 0.2)
"""Shares of a long difference that are shown where it has no room."""
OUTLINED = 0.7
"""Share of a difference that an outline has at most where it takes its place."""


def member_levels(context: Context, member: Member | None, spec: TaskSpec, *, alone: bool) -> Levels:
    """A program beside the parent: whole or as its difference, whichever is shorter. Then, if it is worth showing
    `alone`, an outline of the difference, the beginning of a long one, and only the score."""

    def texts(member: Member) -> Iterator[str]:
        head = f"Candidate {member.candidate}, score {score_of(context, member)}"
        head += ", the best by the mean of two evaluations" if alone and context.by_mean else ""
        yield f"{head}, {beside(member.program, context.parent, spec)}"
        if alone:
            parent = context.parent
            change = _shorter_difference(parent.program, member.program) or ""
            if _has_outline(spec) and len(sketch := _outline(parent.program, member.program)) <= OUTLINED * len(change):
                change = sketch
                yield f"{head}, {_outlined(change, parent)}"
            for share in BEGINNINGS if len(change) >= LONG_DIFFERENCE else ():
                yield f"{head}, {_beginning(change, share, parent)}"
            yield f"{head}. Its text has no room here."

    forms, left = list[str](), texts(member) if member is not None else iter(())

    def text(level: int) -> str | None:
        if member is None:
            return ""
        forms.extend(islice(left, max(0, level + 1 - len(forms))))
        return forms[level] if level < len(forms) else None

    return text


def beside(program: str, parent: Member, spec: TaskSpec, names: Collection[str] = ()) -> str:
    """The program whole, or what leads to it from the parent if that is shorter. Where functions with these `names`
    differ, only these are shown, with what they use, and the others are named."""
    difference = _shorter_difference(parent.program, program)
    if difference is None and spec.has_folder:
        return "another program, whose difference has no room here."
    if names and _has_outline(spec):
        sketch = _outline(parent.program, program, frozenset(names))
        if len(sketch) < len(program if difference is None else difference):
            return _outlined(sketch, parent)
    if difference is None:
        return f"whole:\n{fenced(program, spec.written_in.fences[0])}"
    return f"as a difference from candidate {parent.candidate}:\n{fenced(difference, 'diff')}"


def _has_outline(spec: TaskSpec) -> bool:
    return spec.language == PYTHON and not spec.has_folder


def _outlined(sketch: str, parent: Member) -> str:
    return f"as an outline of its difference from candidate {parent.candidate}:\n{fenced(sketch, 'diff')}"


@lru_cache(maxsize=256)
def _outline(before: str, after: str, whole: frozenset[str] = frozenset()) -> str:
    return outline(before, after, text_difference, whole)


def _shorter_difference(before: str, after: str) -> str | None:
    """The difference, None if it is not shorter than the program after it."""
    difference = _difference(before, after)
    return None if difference is None or len(difference) >= len(after) else difference


def _beginning(difference: str, share: float, parent: Member) -> str:
    """The first lines of a difference, at most this share of its characters, with what is left out."""
    lines, room = difference.split("\n"), int(len(difference) * share)
    ends = list(takewhile(lambda end: end <= room, accumulate(len(line) + 1 for line in lines)))
    beginning = "\n".join(lines[: len(ends)])
    of = f"as the first {len(ends)} of {len(lines)} lines of a difference from candidate {parent.candidate}"
    return f"{of}, the others have no room here:\n{fenced(beginning, 'diff')}"


@lru_cache(maxsize=256)
def _difference(before: str, after: str) -> str | None:
    """A unified difference without line numbers, the shortest one. None where a program has too many lines. Of programs
    of several files one for each file that differs, below its name."""
    if is_fileset(before) and is_fileset(after):
        old, new = Program.of(before), Program.of(after)
        return "\n".join(_file_difference(path, old, new) for path in changed_paths(old, new))
    return text_difference(before, after)


def _file_difference(path: str, before: Program, after: Program) -> str:
    if path not in after.files:
        return f"FILE: {path} is removed"
    new = "" if path in before.files else " is new"
    difference = text_difference(before.files.get(path, ""), after.files[path])
    return f"FILE: {path}{new}\n{'(too many lines to be compared)' if difference is None else difference}"


def text_difference(before: str, after: str) -> str | None:
    """Each change with the lines around it. None where a text has too many lines."""
    a, b = before.splitlines(), after.splitlines()
    if max(len(a), len(b)) > MOST_LINES:
        return None
    rows = list(_rows(a, b))
    changed = [place for place, (mark, _) in enumerate(rows) if mark != " "]
    near = {place + step for place in changed for step in range(-AROUND, AROUND + 1)}
    lines, last = list[str](), -1
    for place in sorted(near & set(range(len(rows)))):
        if place != last + 1 or place == 0:
            lines.append("@@")
        lines.append("".join(rows[place]))
        last = place
    return "\n".join(_shortened(lines))


def _rows(a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every line with its mark: a space for one of both, `-` for one of `a` and `+` for one of `b` only."""
    for same, run in groupby(Indel.opcodes(a, b), key=lambda part: part.tag == "equal"):
        parts = list(run)
        mark = " " if same else "-"
        yield from ((mark, line) for part in parts for line in a[part.src_start : part.src_end])
        if not same:
            yield from (("+", line) for part in parts for line in b[part.dest_start : part.dest_end])


def _shortened(lines: Sequence[str]) -> Iterator[str]:
    """A difference of which a long run of removed lines shows only the first ones."""
    for removed, run in groupby(lines, key=lambda line: line.startswith("-")):
        part = list(run)
        if removed and len(part) > REMOVED + 1:
            part[REMOVED:] = [f"-... and {len(part) - REMOVED} more lines removed"]
        yield from part
