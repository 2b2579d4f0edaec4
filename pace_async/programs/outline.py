"""What one program has and another has not, by the names of functions and tables: more to the point than a long
difference, and shorter.

Functions and tables that differ are told by their first line, the beginning of their docstring, and how long they are.
Those that are asked for are shown in full. What stands outside them is a difference. Pure.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from pace_async.programs.folding import Part, names_in, parts_of

LONGEST_DOCSTRING = 160
"""Characters of it that are told."""
_DOCSTRING = re.compile(r"\s*[rR]?(\"\"\"|''')(.*?)(?:\1|\n\s*\n|\Z)", re.DOTALL)

Difference = Callable[[str, str], str | None]
"""A text from two: lines that begin with a space, - or +. None where there are too many lines."""


def outline(before: str, after: str, difference: Difference, whole: Collection[str] = ()) -> str:
    """What leads from one Python program to another, as lines that begin as in a difference. Functions with a name in
    `whole` are shown, with those that they use and that differ too."""
    old, new = _parts(before), _parts(after)
    changed = _changed(old, new)
    shown = _with_used({key for key in changed if _is_named(new[key][0], whole)}, new, changed)
    lines, owner = [_around(before, after, difference)], ""
    for key, (part, text) in new.items():
        if key in changed:
            lines.append(f" class {part.owner}:" if part.owner not in ("", owner) else "")
            owner = part.owner
            was = old[key][1] if key in old else None
            lines.append(_shorter_form(text, was, difference) if key in shown else _summary_of(part, text, was))
    removed = [key for key in old if key not in new]
    lines.append(f"-# gone: {', '.join(removed)}" if removed else "")
    return "\n".join(each for each in lines if each)


def differing(before: str, after: str, names: Collection[str]) -> frozenset[str]:
    """Those names that belong to a function or table of `after` that `before` has not in the same words."""
    old, new = _parts(before), _parts(after)
    return frozenset(name for key in _changed(old, new) for name in new[key][0].names if name in names)


def _parts(program: str) -> Mapping[str, tuple[Part, str]]:
    """Functions and tables by name, methods with their class. The second of the same name, such as a setter, has a
    prime."""
    lines, parts = program.splitlines(keepends=True), dict[str, tuple[Part, str]]()
    for part in parts_of(program):
        key = f"{part.owner}.{part.name}".lstrip(".")
        while key in parts:
            key += "'"
        parts[key] = part, part.text(lines)
    return parts


def _changed(old: Mapping[str, tuple[Part, str]], new: Mapping[str, tuple[Part, str]]) -> set[str]:
    """The keys of what is new or in other words."""
    return {key for key, (_, text) in new.items() if key not in old or old[key][1] != text}


def _is_named(part: Part, names: Collection[str]) -> bool:
    return any(name in names for name in part.names)


def _with_used(shown: set[str], new: Mapping[str, tuple[Part, str]], changed: Collection[str]) -> set[str]:
    """These, and those of the changed ones whose name, or whose class's name, occurs in them."""
    left = list(shown)
    while left:
        words = names_in(new[left.pop()][1])
        used = {key for key in changed if key not in shown and words & {new[key][0].owner, new[key][0].name}}
        shown |= used
        left += used
    return shown


def _around(before: str, after: str, difference: Difference) -> str:
    """What differs outside functions and tables."""
    change = difference("\n".join(_outside(before)), "\n".join(_outside(after))) or ""
    return "\n".join(line for line in change.split("\n") if line[:1] in "+-" and line[1:].strip())


def _outside(program: str) -> Iterator[str]:
    lines, at = program.splitlines(), 0
    for part in parts_of(program):
        yield from lines[at : part.first]
        at = part.last + 1
    yield from lines[at:]


def _shorter_form(text: str, was: str | None, difference: Difference) -> str:
    """A function in full, or its difference if that is shorter."""
    full = "\n".join(f"+{line}" for line in text.splitlines())
    change = difference(was, text) if was is not None else None
    return full if change is None or len(change) >= len(full) else change


def _summary_of(part: Part, text: str, was: str | None) -> str:
    count = f"{part.last + 1 - part.first} lines"
    mark, comment = ("+", f"new, {count}") if was is None else (" ", f"differs, {count}")
    head = f"{mark}{part.head} ...  # {comment}"
    docstring = _DOCSTRING.match("".join(text.splitlines(keepends=True)[part.body - part.first :]))
    words = " ".join(docstring[2].split()) if docstring is not None and not part.is_table else ""
    if not words or (was is not None and words in " ".join(was.split())):
        return head
    return f"{head}: {words if len(words) <= LONGEST_DOCSTRING else words[: LONGEST_DOCSTRING - 3] + '...'}"
