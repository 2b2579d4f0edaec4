"""A program as text: its files, its evolve block, its assignments, and the lines in which two programs differ.

Several files are one text. A line `# FILE: name.py`, a comment to Python, stands before each file. Edits, hashes and
rows therefore deal with one text, and the files are separated only to be compiled or run. Invariant: separating and
joining gives the text back. A text that does not begin with such a line is one file without a name, even if such a line
follows later.

The evolve block is the part that may change: the lines between two marks, each alone on its line, in a comment as the
program's language has it (`#`, `//`, `!`). Where neither mark stands, the whole program may change (`editable`). Only
the marks are searched for and not every line, because a text may have hundreds of thousands.

Lines are compared at a bounded cost. `difflib` searches the longest common run again and again, which takes hours for a
text of a few thousand equal lines. The steps that it may take are therefore counted first. Where they are too many, all
lines between the common beginning and the common end count as replaced. That still leads from one text to the other,
though not by the shortest way.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache

from pace_async.programs.languages import COMMENTS, PYTHON, Language, language_of

LINE_END = "\n"
FILE_NAME = r"[a-z_][a-z0-9_]*\.py"
START_MARK = "EVOLVE-BLOCK-START"
END_MARK = "EVOLVE-BLOCK-END"
SEARCH, DIVIDER, REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
"""The lines around the two parts of an edit in a model's answer."""
BLOCK_START = f"# {START_MARK}"
BLOCK_END = f"# {END_MARK}"
_HEADER = re.compile(rf"^# FILE: ({FILE_NAME})[ \t]*$", re.MULTILINE)
_VALUE = r'"[^"\n]*"|[^\s;,]+'
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # as `str.splitlines` has them

Change = tuple[str, int, int, int, int]
"""As of `SequenceMatcher.get_opcodes`: (equal, replace, delete or insert, start and end in each text)."""


def join_files(files: Mapping[str, str]) -> str:
    """One text of these files, in order."""
    return "".join(f"# FILE: {name}\n{text.removesuffix(LINE_END)}{LINE_END}" for name, text in files.items())


def parted(program: str) -> tuple[tuple[str, str], ...]:
    """(name, text) of each file, in order. Each text begins with the line that names it. A single file has no name."""
    if _HEADER.match(program) is None:
        return (("", program),)
    headers = list(_HEADER.finditer(program))
    ends = [header.start() for header in headers[1:]] + [len(program)]
    return tuple((header[1], program[header.start() : end]) for header, end in zip(headers, ends, strict=True))


def marks(comment: str) -> tuple[str, str]:
    """The two marks in a language with such comments."""
    return f"{comment or '#'} {START_MARK}", f"{comment or '#'} {END_MARK}"


@lru_cache(maxsize=64)
def split_block(program: str) -> tuple[str, str, str]:
    """(text up to and with the start marker's line, the evolve block, the rest). Raises ValueError unless there is
    exactly one block, start before end."""
    starts, ends = _two(program, START_MARK), _two(program, END_MARK)
    if len(starts) != 1 or len(ends) != 1 or ends[0][0] < starts[0][0]:
        raise ValueError(f"the program needs exactly one {BLOCK_START} … {BLOCK_END}")
    start, end = starts[0][1], ends[0][0]
    return program[:start], program[start:end], program[end:]


def is_marked(program: str) -> bool:
    """Whether either mark stands in the program."""
    return bool(_two(program, START_MARK) or _two(program, END_MARK))


def editable(program: str) -> tuple[str, str, str]:
    """As `split_block`. A program without marks is one block. Raises ValueError for marks that are not a block."""
    return split_block(program) if is_marked(program) else ("", program, "")


def _two(program: str, mark: str) -> list[tuple[int, int]]:
    """Begin and end of the lines that are `mark` in a comment, at most two of them."""
    spans: list[tuple[int, int]] = []
    for line in _lines(program, mark):
        spans.append(line)
        if len(spans) == 2:
            break
    return spans


def _lines(program: str, mark: str) -> Iterator[tuple[int, int]]:
    at = program.find(mark)
    while at >= 0:
        end = at + len(mark)
        begin = _comment_before(program, at)
        if begin is not None:
            while begin > 0 and program[begin - 1] not in _LINE_ENDS and program[begin - 1].isspace():
                begin -= 1
            while end < len(program) and program[end] not in _LINE_ENDS and program[end].isspace():
                end += 1
            if (begin == 0 or program[begin - 1] in _LINE_ENDS) and (end == len(program) or program[end] in _LINE_ENDS):
                yield begin, end + (2 if program[end : end + 2] == "\r\n" else 1 if end < len(program) else 0)
        at = program.find(mark, end)


def _comment_before(program: str, at: int) -> int | None:
    """Where the comment with the mark at this place begins, one space before the mark. None without such a comment."""
    for comment in COMMENTS:
        begin = at - len(comment) - 1
        if begin >= 0 and program.startswith(f"{comment} ", begin):
            return begin
    return None


def changes(a: Sequence[str], b: Sequence[str], most: int) -> list[Change]:
    """From `a` to `b`, both covered without a gap. `most` bounds the steps of the comparison."""
    if steps(a, b) <= most:
        return list(SequenceMatcher(None, a, b, autojunk=False).get_opcodes())
    shorter = min(len(a), len(b))
    first = next((place for place in range(shorter) if a[place] != b[place]), shorter)
    last = next((place for place in range(shorter - first) if a[-1 - place] != b[-1 - place]), shorter - first)
    middle = ("replace", first, len(a) - last, first, len(b) - last)
    if first == len(a) - last or first == len(b) - last:
        middle = ("insert" if first == len(a) - last else "delete", *middle[1:])
    ends: list[Change] = [("equal", 0, first, 0, first), middle]
    ends.append(("equal", len(a) - last, len(a), len(b) - last, len(b)))
    return [change for change in ends if change[1] < change[2] or change[3] < change[4]]


def steps(a: Sequence[str], b: Sequence[str]) -> int:
    """Upper bound on how often `SequenceMatcher` looks at a pair of equal lines: each pair once for every run that it
    finds. It finds no more runs than the shorter text has lines."""
    counts = Counter(b)
    return sum(counts[line] for line in a) * min(len(a), len(b))


def assigned(block: str, language: Language, name: str) -> list[re.Match[str]]:
    """The lines that assign the name, each as (what stands before the value, the value, the rest). Of lines with
    different indentation only those with the least count: a function of the block may have a local variable of the same
    name. In Python the value may be any expression, and an entry of a table that has a line of its own, `"name":
    value,`, is an assignment too."""
    escaped = re.escape(name)
    pattern = _python_line(escaped) if language.name == PYTHON else _line(language, escaped)
    return _outermost(pattern.finditer(block))


@lru_cache(maxsize=16)
def assignments(block: str, language: str = PYTHON) -> Mapping[str, tuple[str, ...]]:
    """The values that are assigned to each name, in order. Of lines with different indentation those with the least."""
    name = r"(?P<name>[a-z][a-z0-9_]*)"
    line = (
        _python_line(name, r"(?P<entry>[a-z][a-z0-9_]*)") if language == PYTHON else _line(language_of(language), name)
    )
    matches: dict[str, list[re.Match[str]]] = {}
    for match in line.finditer(block):
        groups = match.groupdict()
        matches.setdefault(groups["name"] or groups["entry"], []).append(match)
    return {known: tuple(match["value"] for match in _outermost(lines)) for known, lines in matches.items()}


def indentation(line: str) -> int:
    """Columns of white space at its beginning."""
    expanded = line.expandtabs()
    return len(expanded) - len(expanded.lstrip(" "))


def _outermost(lines: Iterable[re.Match[str]]) -> list[re.Match[str]]:
    indented_lines = [(indentation(line[1]), line) for line in lines]
    least = min((columns for columns, _ in indented_lines), default=0)
    return [line for columns, line in indented_lines if columns == least]


def _line(language: Language, name: str) -> re.Pattern[str]:
    before = language.assignment.replace("{name}", name)
    comment = re.escape(language.comment) if language.comment else "|".join(map(re.escape, COMMENTS))
    return re.compile(rf"^([ \t]*{before})(?P<value>{_VALUE})([ \t]*[;,]?[ \t]*(?:(?:{comment}).*)?)$", re.MULTILINE)


def _python_line(name: str, entry: str | None = None) -> re.Pattern[str]:
    sign = rf"(?:{name}[ \t]*=(?!=)|[\"']{entry or name}[\"'][ \t]*:)"
    return re.compile(rf"^([ \t]*{sign}[ \t]*)(?P<value>[^#\n]*?)([ \t]*,?[ \t]*(?:#.*)?)$", re.MULTILINE)
