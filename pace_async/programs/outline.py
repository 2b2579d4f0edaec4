"""What one program has and another has not, by the names of functions and tables: more to the point than a long
difference, and shorter.

Functions and tables that differ are told by their first line, what they say of themselves, and how long they are, those
that are asked for in full. What stands outside them is a difference. Pure.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from pace_async.programs.folding import Part, names_in, parts_of

LONGEST_SAYING = 160
"""Characters of what a function says of itself."""
_SAYING = re.compile(r"\s*[rR]?(\"\"\"|''')(.*?)(?:\1|\n\s*\n|\Z)", re.DOTALL)

Difference = Callable[[str, str], str | None]
"""A text from two: lines that begin with a space, - or +. None where there are too many lines."""


def outline(before: str, after: str, difference: Difference, whole: Collection[str] = ()) -> str:
    """What leads from one Python program to another, as lines that begin as in a difference. Functions with a name in
    `whole` are shown, with those that they use and that differ too."""
    old, new = _parts(before), _parts(after)
    differing = {key for key, (_, text) in new.items() if key not in old or old[key][1] != text}
    shown = _with_used({key for key in differing if _named(new[key][0], whole)}, new, differing)
    lines, owner = [_around(before, after, difference)], ""
    for key, (part, text) in new.items():
        if key in differing:
            lines.append(f" class {part.owner}:" if part.owner not in ("", owner) else "")
            owner = part.owner
            was = old[key][1] if key in old else None
            lines.append(_shown(text, was, difference) if key in shown else _told(part, text, was))
    gone = [key for key in old if key not in new]
    lines.append(f"-# gone: {', '.join(gone)}" if gone else "")
    return "\n".join(each for each in lines if each)


def differing(before: str, after: str, names: Collection[str]) -> frozenset[str]:
    """Those names that belong to a function or table of `after` that `before` has not in the same words."""
    old, new = _parts(before), _parts(after)
    others = (part for key, (part, text) in new.items() if key not in old or old[key][1] != text)
    return frozenset(name for part in others for name in part.names if name in names)


def _parts(program: str) -> Mapping[str, tuple[Part, str]]:
    """Functions and tables by name, methods with their class."""
    lines = program.splitlines(keepends=True)
    return {f"{each.owner}.{each.name}".lstrip("."): (each, each.text(lines)) for each in parts_of(program)}


def _named(part: Part, names: Collection[str]) -> bool:
    return any(name in names for name in part.names)


def _with_used(shown: set[str], new: Mapping[str, tuple[Part, str]], differing: Collection[str]) -> set[str]:
    """These, and those that differ and whose names occur in them."""
    left = list(shown)
    while left:
        words = names_in(new[left.pop()][1])
        used = {key for key in differing if key not in shown and (new[key][0].owner or new[key][0].name) in words}
        shown |= used
        left += used
    return shown


def _around(before: str, after: str, difference: Difference) -> str:
    """What differs outside functions and tables."""
    told = difference("\n".join(_outside(before)), "\n".join(_outside(after))) or ""
    return "\n".join(line for line in told.split("\n") if line[:1] in "+-" and line[1:].strip())


def _outside(program: str) -> Iterator[str]:
    lines, at = program.splitlines(), 0
    for part in parts_of(program):
        yield from lines[at : part.first]
        at = part.last + 1
    yield from lines[at:]


def _shown(text: str, was: str | None, difference: Difference) -> str:
    """A function in full, or its difference if that is shorter."""
    full = "\n".join(f"+{line}" for line in text.splitlines())
    change = difference(was, text) if was is not None else None
    return full if change is None or len(change) >= len(full) else change


def _told(part: Part, text: str, was: str | None) -> str:
    count = f"{part.last + 1 - part.first} lines"
    mark, what = ("+", f"new, {count}") if was is None else (" ", f"differs, {count}")
    head = f"{mark}{part.head} ...  # {what}"
    saying = _SAYING.match("".join(text.splitlines(keepends=True)[part.body - part.first :]))
    words = " ".join(saying[2].split()) if saying is not None and not part.is_table else ""
    if not words or (was is not None and words in " ".join(was.split())):
        return head
    return f"{head}: {words if len(words) <= LONGEST_SAYING else words[: LONGEST_SAYING - 3] + '...'}"
