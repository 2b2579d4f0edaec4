"""What the compiler makes of program texts: when two are the same program, and what is run of one.

Invariant: two texts with one digest do the same; layout, comments and line numbers are not in it, the names of files
are. A text is compiled once, however often its digest, its fault or its code is asked for, because compiling is what a
candidate costs the event loop; and of a text that differs from another in one function, no more than that function is.

Functions and classes at the left margin are compiled apart. That is exact: where each part is a program by itself, no
string, bracket or continued line is open at its end, so the parts in turn are the whole. What a part cannot see of the
others (`from __future__`, `global`) is looked for, and where one of them is no program by itself,
the text is compiled whole, which also says what is wrong and in which line.
"""

import hashlib
import marshal
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import cast

from pace_async.program_files import parted

REMEMBERED = 512
"""Texts: a parent's digest is asked for with each child."""
PARTS_REMEMBERED = 4096
_PART = re.compile(r"^(?:@|(?:async[ \t]+)?def\b|class\b)", re.MULTILINE)
_SEEN_BY_ALL = re.compile(r"__future__|\bglobal\b")


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a text came to: the digest of its normal form, and what the compiler refused it for, or ""."""

    digest: str
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """Code of a part of a file, marshalled, numbered as if nothing stood above it; `above` counts the lines that do."""

    above: int
    code: bytes


def parts_of(text: str) -> tuple[Part, ...]:
    """What to run, part after part in one namespace, to have run the file `text`; nothing where only compiling it as a
    whole tells what it is, or what is wrong with it. For this version of Python."""
    if "\r" in text or "\f" in text:
        return ()  # lines are not counted by their ends alone
    parts: list[Part] = []
    above = 0
    try:
        for part in _parts(text):
            parts.append(Part(above, _compiled_part(part).code))
            above += part.count("\n")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(parts)


def program_hash(program: str) -> str:
    """32 hex digits of the program's normal form, of this version of Python. A text that is no program has its
    stripped lines for one."""
    return compiled(program).digest


@lru_cache(maxsize=REMEMBERED)
def compiled(program: str) -> Compiled:
    """Compile `program` without running it. Never raises for any text."""
    files = parted(program)
    try:
        try:
            return Compiled(_digest(_normal(files, _parts)))
        except SyntaxError:  # of a part, which says nothing about the whole
            return Compiled(_digest(_normal(_placed(files), _whole)))
    except SyntaxError as error:
        fault = f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        fault = type(error).__name__
    return Compiled(_digest("\n".join(line.strip() for line in program.splitlines() if line.strip())), fault)


def _normal(files: Iterable[tuple[str, str]], split: Callable[[str], Iterable[str]]) -> str:
    lines: list[str] = []
    for name, text in files:
        lines += [f"file {name}"] * bool(name)
        lines += [digest for part in split(text) if (digest := _compiled_part(part).digest) != _NOTHING]
    return "\n".join(lines)


def _placed(files: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Each file as far down as it stands in the program, so that the lines of faults are the program's."""
    above = 0
    for name, text in files:
        yield name, "\n" * above + text
        above += text.count("\n")


def _parts(text: str) -> list[str]:
    """The text in parts that begin with a function or a class at the left margin, its decorators included."""
    if ("__future__" in text or "global" in text) and _SEEN_BY_ALL.search(text):  # the search alone takes longer
        return [text]
    starts = [0]
    for found in _PART.finditer(text):
        at = found.start()
        if at and text[text.rfind("\n", 0, at - 1) + 1] != "@":
            starts.append(at)
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


def _whole(text: str) -> list[str]:
    return [text]


@dataclass(frozen=True, slots=True)
class _CompiledPart:
    digest: str
    code: bytes


@lru_cache(maxsize=PARTS_REMEMBERED)
def _compiled_part(text: str) -> _CompiledPart:
    """What the compiler makes of it. Raises what `compile` raises."""
    with warnings.catch_warnings():  # a candidate's own warnings are nobody's
        warnings.simplefilter("ignore")
        code = compile(text, "", "exec", dont_inherit=True, optimize=0)
    return _CompiledPart(_digest("\n".join(_code(code))), marshal.dumps(code))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _code(code: CodeType) -> Iterator[str]:
    yield (
        f"{code.co_name} {code.co_flags} {code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount} "
        f"{code.co_names} {code.co_varnames} {code.co_freevars} {code.co_cellvars} {code.co_exceptiontable!r} "
        f"{code.co_code!r} {len(code.co_consts)}"
    )
    for constant in code.co_consts:
        yield from _constant(constant)


def _constant(value: object) -> Iterator[str]:
    if isinstance(value, CodeType):
        yield from _code(value)
    elif isinstance(value, tuple):
        parts = cast("tuple[object, ...]", value)
        yield f"tuple {len(parts)}"
        for part in parts:
            yield from _constant(part)
    elif isinstance(value, frozenset):  # its order is another in each process
        members = cast("frozenset[object]", value)
        yield f"frozenset {sorted(' '.join(_constant(member)) for member in members)}"
    else:
        yield f"{type(value).__name__} {value!r}"


_NOTHING = _compiled_part("").digest
"""A part of nothing but comments, which is none."""
