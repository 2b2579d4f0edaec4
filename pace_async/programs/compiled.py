"""Compiles program texts, and decides when two texts are the same program.

Invariant: two texts with one digest behave the same, unless something reads the source or its line
numbers. So scores and builds are kept by `digest_as_it_is`. The digest leaves out layout, comments and line numbers,
and includes the names of files. A text is compiled once, however often its digest, its fault or its code is needed. If
a text differs from an earlier one in one function, only that function is compiled. The length of a text does not bound
the time of compiling: a quarter of a megabyte can take a minute. So the event loop compiles only texts for which
`is_small` holds. A helper process compiles the others, and the results are cached here (`compiled_off_loop`). A small
or known text is compiled at once, without a pause, so that work without waits stays in order. A text that needs more
work than a candidate may use gets the digest of its stripped lines, and the excess is its fault.

Functions and classes at the left margin are compiled separately. This is exact: if each part is a program by itself, no
string, bracket or continued line is open at its end, so the parts in sequence are the whole. Statements that affect
other parts (`from __future__`, `global`) are detected. If a part is not a program by itself, the text is compiled as a
whole, which also gives the error and its line.
"""

import hashlib
import marshal
import re
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Generic, TypeVar, cast

from pace_async.programs.fileset import LONGEST_SET, NotAProgram, Program, is_fileset
from pace_async.programs.helpers import TooMuchWork, helpers_run, in_helper
from pace_async.programs.languages import PYTHON
from pace_async.programs.text import parted

LONGEST_PROGRAM = 1 << 18
"""Characters of a file. A program is some kilobytes; what is longer is refused before anything is made of it."""
SMALL = 2048
"""Characters that the compiler may be given in the event loop: of all kinds of text known to be slow to compile, so
much takes it 20 ms at most."""
SHORT = 16 * SMALL
"""For a longer text the event loop does not even count how much of it is new."""
MOST_CONSTANTS = 1 << 18
"""Characters that the constants of a part may be written with in the event loop: the compiler makes megabytes of
`("a" * 4096,) * 256`."""
MOST_CODE = 1 << 20
"""Bytes of code that another process may send; a candidate compiles a larger program by itself."""
REMEMBERED = 32 << 20
"""Characters and bytes of what is remembered of texts, and as many of their parts."""
T = TypeVar("T")
_PART = re.compile(r"^(?:@|(?:async[ \t]+)?def\b|class\b)", re.MULTILINE)
_SEEN_BY_ALL = re.compile(r"__future__|\bglobal\b")


class TooMuchHere(Exception):
    """More work than the event loop may do."""


@dataclass(frozen=True, slots=True)
class CompileResult:
    """Result for a text: the digest of its normal form, and why the compiler refused it, or "". `too_much`: it takes
    more work than a candidate may ask for, so nothing else is known."""

    digest: str
    fault: str = ""
    too_much: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """Code of a part of a file, marshalled, with lines numbered from its own start. `above` counts the lines above."""

    above: int
    code: bytes


class _Memo(Generic[T]):
    """A cache of results by text: the ones used last, at most `most` characters and bytes of texts and results."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._kept: OrderedDict[str, tuple[T, int]] = OrderedDict()

    def get(self, text: str) -> T | None:
        """The cached result, if any."""
        entry = self._kept.get(text)
        if entry is None:
            return None
        self._kept.move_to_end(text)
        return entry[0]

    def put(self, text: str, value: T, size: int) -> None:
        """Keep a result of `size` bytes besides the text."""
        if text not in self._kept:
            self._kept[text] = value, len(text) + size
            self._size += len(text) + size
            while self._size > self._most:
                self._size -= self._kept.popitem(last=False)[1][1]


_programs: _Memo[CompileResult] = _Memo(REMEMBERED)
_sent: _Memo[tuple[Part, ...]] = _Memo(REMEMBERED)
"""Code that another process has made of files."""


def cached_result(program: str) -> CompileResult | None:
    """The cached result of a text."""
    return _programs.get(program)


def is_small(program: str) -> bool:
    """Whether the new parts of a text may be compiled in the event loop."""
    if len(program) <= SMALL:
        return True
    if len(program) > SHORT:
        return False
    new = (len(part) for _, text in parted(program) for part in _parts(text) if _compiled_parts.get(part) is None)
    return sum(new) <= SMALL


def parts_of(text: str) -> tuple[Part, ...]:
    """The parts to run one after the other in one namespace, which equals running the file `text`. Empty if the text
    has to be compiled as a whole, or if it is neither compiled yet nor small. For this version of Python."""
    sent = _sent.get(text)
    return sent if sent is not None else _parts_made(text) if is_small(text) else ()


def _parts_made(text: str) -> tuple[Part, ...]:
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


def program_hash(program: str, language: str = PYTHON) -> str:
    """32 hex digits of the program's normal form, of this version of Python. The normal form of a text that is no
    program is its stripped lines. That of a program in another language is its text without the space at its end."""
    return compiled(program, language=language).digest


def compiled(program: str, most: int | None = None, language: str = PYTHON) -> CompileResult:
    """Compile `program` without running it. A program in another language than Python is not compiled. Raises only
    TooMuchHere, and only with `most`: if the constants of one part have more characters, or if a text that is not small
    has to be compiled as a whole to find its error. Of a set of files (`fileset`) only the digest is made: a file that
    does not compile may have been there before."""
    if is_fileset(program):
        result = cached_result(program) or _compiled_set(program, most)
        _programs.put(program, result, 0)
        return result
    if language != PYTHON:
        return CompileResult(_digest(f"{language}\n{program.rstrip()}"))
    result = cached_result(program)
    if result is None:
        result = _compiled(program, most)
        _programs.put(program, result, 0)
    return result


def _compiled(program: str, most: int | None) -> CompileResult:
    files = parted(program)
    try:
        try:
            return CompileResult(_digest(_normal(files, _parts, most)))
        except SyntaxError:  # of a part, which says nothing about the whole
            if most is not None and len(program) > SMALL:
                raise TooMuchHere from None
            return CompileResult(_digest(_normal(_padded_files(files), lambda text: [text], most)))
    except SyntaxError as error:
        fault = f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        fault = type(error).__name__
    return CompileResult(stripped_digest(program), fault)


def _compiled_set(program: str, most: int | None) -> CompileResult:
    """The digest over each path and the digest of its file, which is that of the normal form for Python."""
    try:
        files = Program.of(program).files
    except NotAProgram as damaged:
        return CompileResult(stripped_digest(program), str(damaged))
    digests = (compiled(text, most).digest if path.endswith(".py") else _digest(text) for path, text in files.items())
    return CompileResult(_digest("\n".join(f"{digest} {path}" for path, digest in zip(files, digests, strict=True))))


def longest_of(program: str) -> int:
    """Characters that a program may have: of a set of files, with the lines that name them."""
    return 2 * LONGEST_SET if is_fileset(program) else LONGEST_PROGRAM


def stripped_digest(program: str) -> str:
    """32 hex digits of the lines of a text that is not a program, without the space around them."""
    return _digest("\n".join(line.strip() for line in program.splitlines() if line.strip()))


def digest_as_it_is(program: str) -> str:
    """32 hex digits of every character of a text. Never those of a normal form."""
    return _digest(f"\0{program}")


def examined(program: str, language: str = PYTHON) -> dict[str, Any]:
    """For another process: the result of `compiled`, and the code of each file."""
    result = compiled(program, language=language)
    read = language == PYTHON and not result.fault and not is_fileset(program)
    files = [_parts_made(text) for _, text in parted(program)] if read else []
    if sum(len(part.code) for parts in files for part in parts) > MOST_CODE:
        files = []
    parts = [[(part.above, part.code.hex()) for part in parts] for parts in files]
    return {"digest": result.digest, "fault": result.fault, "parts": parts}


def stripped(program: str) -> dict[str, Any]:
    """For another process: the digest of a text that could not be compiled."""
    return {"digest": stripped_digest(program)}


def remember(program: str, examination: Mapping[str, Any]) -> CompileResult:
    """Take over what another process has `examined`."""
    for (_, text), parts in zip(parted(program), examination["parts"], strict=False):
        code = tuple(Part(int(above), bytes.fromhex(code)) for above, code in parts)
        _sent.put(text, code, sum(len(part.code) for part in code))
    result = CompileResult(str(examination["digest"]), str(examination["fault"]), bool(examination.get("too_much")))
    _programs.put(program, result, 0)
    return result


async def compiled_off_loop(program: str, language: str = PYTHON) -> CompileResult:
    """As `compiled`, without blocking the event loop. Raises InfrastructureFault if no process can be started."""
    if language != PYTHON and not is_fileset(program):
        return compiled(program, language=language)
    if (result := cached_result(program)) is not None:
        return result
    if not helpers_run():
        return compiled(program)
    if len(program) > (longest := longest_of(program)):
        return await _given_up(program, f"the program is longer than {longest} characters")
    if is_small(program):
        try:
            return compiled(program, MOST_CONSTANTS)
        except TooMuchHere:
            pass
    try:
        return remember(program, await in_helper(examined, program))
    except TooMuchWork as work:
        return await _given_up(program, f"compiling it {work.detail}")


async def hash_off_loop(program: str, language: str = PYTHON) -> str:
    """As `program_hash`. Raises as `compiled_off_loop`."""
    return (await compiled_off_loop(program, language)).digest


async def _given_up(program: str, fault: str) -> CompileResult:
    try:
        digest = (await in_helper(stripped, program))["digest"]
    except TooMuchWork:
        digest = digest_as_it_is(program)
    return remember(program, {"digest": digest, "fault": fault, "parts": [], "too_much": True})


def _normal(files: Iterable[tuple[str, str]], split: Callable[[str], Iterable[str]], most: int | None) -> str:
    lines: list[str] = []
    for name, text in files:
        lines += [f"file {name}"] * bool(name)
        lines += [digest for part in split(text) if (digest := _compiled_part(part, most).digest) != _NOTHING]
    return "\n".join(lines)


def _padded_files(files: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Each file with its line numbers in the program, so that faults name the program's lines."""
    above = 0
    for name, text in files:
        yield name, "\n" * above + text
        above += text.count("\n")


def _parts(text: str) -> list[str]:
    """The text in parts that begin with a function or a class at the left margin, its decorators included."""
    if ("__future__" in text or "global" in text) and _SEEN_BY_ALL.search(text):  # the search alone takes longer
        return [text]
    starts = [0]
    for match in _PART.finditer(text):
        at = match.start()
        if at and text[text.rfind("\n", 0, at - 1) + 1] != "@":
            starts.append(at)
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


@dataclass(frozen=True, slots=True)
class _CompiledPart:
    digest: str
    code: bytes


_compiled_parts: _Memo[_CompiledPart] = _Memo(REMEMBERED)


def _compiled_part(text: str, most: int | None = None) -> _CompiledPart:
    """The compiled code. Raises the errors of `compile`, and TooMuchHere."""
    part = _compiled_parts.get(text)
    if part is None:
        part = _compile(text, most)
        _compiled_parts.put(text, part, len(part.code))
    return part


def _compile(text: str, most: int | None) -> _CompiledPart:
    with warnings.catch_warnings():  # a candidate's own warnings are not shown
        warnings.simplefilter("ignore")
        code = compile(text, "", "exec", dont_inherit=True, optimize=0)
    described = _Described(most)
    described.code(code)
    return _CompiledPart(_digest("\n".join(described.lines)), marshal.dumps(code))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(slots=True)
class _Described:
    """Lines that describe code. Raises TooMuchHere when they have more than `most` characters together."""

    most: int | None
    size: int = 0
    lines: list[str] = field(default_factory=list[str])

    def code(self, code: CodeType) -> None:
        """Add a line about the code, and those of its constants."""
        self._add(
            f"{code.co_name} {code.co_flags} {code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount} "
            f"{code.co_names} {code.co_varnames} {code.co_freevars} {code.co_cellvars} {code.co_exceptiontable!r} "
            f"{code.co_code!r} {len(code.co_consts)}"
        )
        for constant in code.co_consts:
            self.constant(constant)

    def constant(self, value: object) -> None:
        """Add a line about the value, and those of what it holds."""
        if isinstance(value, CodeType):
            self.code(value)
        elif isinstance(value, tuple):
            parts = cast("tuple[object, ...]", value)
            self._add(f"tuple {len(parts)}")
            for part in parts:
                self.constant(part)
        elif isinstance(value, frozenset):  # its order is another in each process
            members = cast("frozenset[object]", value)
            self._add(f"frozenset {sorted(map(self._member, members))}")
        else:
            self._add(f"{type(value).__name__} {value!r}")

    def _member(self, value: object) -> str:
        inner = _Described(None if self.most is None else self.most // SMALL)
        inner.constant(value)
        return " ".join(inner.lines)

    def _add(self, line: str) -> None:
        self.size += len(line)
        if self.most is not None and self.size > self.most:
            raise TooMuchHere
        self.lines.append(line)


_NOTHING = _compiled_part("").digest
"""A part of nothing but comments, which is none."""
