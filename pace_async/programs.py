"""When two program texts are the same program: their normal form, read off what the compiler makes of them.

Invariant: two texts with one digest do the same; layout, comments and line numbers are not in it, the names of files
are. A text is compiled once, however often its digest or its fault is asked for, because compiling is what a candidate
costs the event loop.
"""

import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import cast

from pace_async.program_files import parted

REMEMBERED = 512
"""Texts: a parent's digest is asked for with each child."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a text came to: the digest of its normal form, and what the compiler refused it for, or ""."""

    digest: str
    fault: str = ""


def program_hash(program: str) -> str:
    """32 hex digits of the program's normal form, of this version of Python. A text that is no program has its
    stripped lines for one."""
    return compiled(program).digest


@lru_cache(maxsize=REMEMBERED)
def compiled(program: str) -> Compiled:
    """Compile `program` without running it. Never raises for any text."""
    try:
        with warnings.catch_warnings():  # a candidate's own warnings are nobody's
            warnings.simplefilter("ignore")
            lines: list[str] = []
            above = 0
            for name, text in parted(program):
                code = compile("\n" * above + text, "", "exec", dont_inherit=True, optimize=0)
                lines += [f"file {name}"] * bool(name)
                lines += _code(code)
                above += text.count("\n")
        return Compiled(_digest("\n".join(lines)))
    except SyntaxError as error:
        fault = f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        fault = type(error).__name__
    return Compiled(_digest("\n".join(line.strip() for line in program.splitlines() if line.strip())), fault)


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
