"""A program with functions and tables left out that do not matter now, and the way back.

A folded function is one line, `def f(x): ...  # 40-57 hidden`, and so is a folded table, `TRAITS = ...  # 3-14 hidden`.
Each such line stands once, so that text which holds it can be unfolded exactly. Folded are functions and assignments of
several lines at the margin, and methods of classes at the margin. All else is shown.

They are found by indentation and not by parsing, because a parser can take too long for the event loop. A wrong guess,
as about a string that looks like code, shows more or less and never loses a character. Pure.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile, zip_longest

from pace_async.programs.text import is_marked

LEAST_SAVED = 60
"""Characters that a folded line has to save."""
LONGEST_SIGNATURE = 30
"""Lines. What looks longer is no signature."""
LEAST_TABLE = 4
"""Lines of a table that may be folded."""
LONG_TABLE = 600
"""Characters from which on a table of numbers is long."""
MOST_LETTERS = 0.1
"""Share of letters in a table of numbers."""
LEAST_KEY = 3
"""Characters of a table's key that a specification can mention. A shorter one may be any word."""
_DEFINITION = re.compile(r"([ \t]*)(?:async[ \t]+)?(def|class)[ \t]+(\w+)")
_TABLE = re.compile(r"(\w+)(?:[ \t]*:[^=\n]+)?[ \t]*=[^=].*[\[({][ \t]*(?:#.*)?$")
_KEY = re.compile(r"[\"'](\w+)[\"'][ \t]*:|\b(\w+)[ \t]*=")
_COMMENT = re.compile(r"[ \t]+#[^\"']*$")
_FOLDED = re.compile(r"# (\d+)-(\d+) hidden\s*$")
_STUB = re.compile(r"[:=]\s*\.\.\.[ \t]*(?:#.*)?(?:\n|$)")
_QUOTED = re.compile(r"`([^`\n]*)`|\"([^\"\n]*)\"")
_DOCSTRING = re.compile(r"(\"\"\"|''')(\w.*)")
_TEXT = re.compile(r"^[ \t]*(\"\"\"|''').*?\1", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Part:
    """A function, method or table, in the lines `first` to `last`, from 0. The lines below `body` are left out when it
    is folded, and `head` is shown. `names` are its own, that of its class, and those of the functions in it or the keys
    of a table. `owner` is the class of a method."""

    name: str
    names: frozenset[str]
    head: str
    first: int
    body: int
    last: int
    is_table: bool = False
    owner: str = ""

    def text(self, lines: Sequence[str]) -> str:
        """All of it."""
        return "".join(lines[self.first : self.last + 1])

    def folded(self, end: int) -> str:
        """The line that stands for its lines and for those below, up to the line before `end`."""
        return f"{self.head} ...  # {self.first + 1}-{end} hidden\n"


def names_in(text: str) -> frozenset[str]:
    """Every word that could be a name."""
    return frozenset(_NAME.findall(text))


def mentioned_in(text: str) -> frozenset[str]:
    """Names that a text can only mean as names: in quotes or backticks, or with a capital letter or an underscore.
    `the mean of both` does not mention "mean"."""
    quoted = names_in(" ".join(part for parts in _QUOTED.findall(text) for part in parts))
    return quoted | {name for name in names_in(text) if "_" in name or not name.islower()}


def is_folded(line: str) -> bool:
    """Whether the line says that it stands for others."""
    return _FOLDED.search(line) is not None


def folded(program: str, needed: Collection[str], mentioned: Collection[str] = ()) -> str:
    """The program without functions of which no name is needed, and without tables of which no name is needed or
    mentioned. A class of which a method is shown keeps its `__init__`, which says what its attributes are. A
    class of which nothing is needed is left out whole, if nothing that is shown uses it. Of a docstring above the block
    only the first line is left. As it is if it has a line that looks folded."""
    lines = program.splitlines(keepends=True)
    both, known = {*needed, *mentioned}, parts_of(program)
    shown = {part for part in known if not part.names.isdisjoint(both if part.is_table else needed)}
    classes = {part.owner for part in shown if part.owner}
    shown |= {part for part in known if part.name == "__init__" and part.owner in classes}
    docstring = _module_docstring(lines)
    begins = docstring[0].last if docstring else -1
    hidden = {part for part in known if part not in shown and part.first > begins and _may_go(lines, part)}
    for each in _classes(lines):
        methods = {part for part in known if part.owner == each.name}
        needed_here = bool(methods & shown) or not each.names.isdisjoint(both)
        if methods and not needed_here and _may_go(lines, each) and not _is_used(lines, each, hidden):
            hidden = hidden - methods | {each}
    return _without(lines, [*docstring, *sorted(hidden, key=lambda part: part.first)])


@lru_cache(maxsize=256)
def in_use(program: str, entry: str = "") -> str:
    """The program without what nobody would change: long tables that are hardly anything but numbers, functions and
    tables outside the block, and, if the `entry` is known, functions, classes and tables that it does not reach by
    name. As it is if it has a line that looks folded."""
    lines = program.splitlines(keepends=True)
    known, marked = parts_of(program), [at for at, line in enumerate(lines) if is_marked(line)]
    first, last = (marked[0], marked[-1]) if marked else (0, len(lines))
    unused = {part for part in known if not first <= part.first <= last or _is_numbers(lines, part)}
    if entry:
        classes = [part for part in _classes(lines) if _may_go(lines, part)]
        left = {*known, *classes} - _reached(lines, [*known, *classes], entry)
        unused_classes = {part.name for part in left if part in classes}
        unused = {part for part in unused | left if part.owner not in unused_classes}
    return _without(lines, sorted(unused, key=lambda part: part.first))


def _classes(lines: Sequence[str]) -> Iterator[Part]:
    """Classes at the margin, each as one part."""
    for at, line in enumerate(lines):
        match = _DEFINITION.match(line)
        if match is not None and match[2] == "class" and not match[1] and (part := _function(lines, at, match)):
            yield part


def _is_used(lines: Sequence[str], each: Part, hidden: Iterable[Part]) -> bool:
    """Whether a line outside this class and what is hidden has its name."""
    excluded_lines = {at for part in (each, *hidden) for at in range(part.first, part.last + 1)}
    return any(
        each.name in names_in(line) for at, line in enumerate(lines) if at not in excluded_lines and each.name in line
    )


def _module_docstring(lines: Sequence[str]) -> list[Part]:
    """The docstring at the beginning, if it is several lines above the block."""
    above = list(takewhile(lambda line: not is_marked(line), lines))
    begins = _DOCSTRING.match(lines[0]) if above and len(above) < len(lines) else None
    if begins is None or begins[1] in begins[2]:
        return []
    last = next((at for at, line in enumerate(above[1:], start=1) if begins[1] in line), None)
    return [] if last is None else [Part("", frozenset(), f"{lines[0].rstrip()}{begins[1]}", 0, 1, last)]


def _reached(lines: Sequence[str], known: Sequence[Part], entry: str) -> set[Part]:
    """Parts, classes among them, whose names occur outside all parts, or in one that is reached. Any word of the code
    counts as the name. A method's class has to be reached too."""

    def words_of(part: Part) -> frozenset[str]:
        inside = {at for method in known if method.owner == part.name for at in range(method.first, method.last + 1)}
        return _words(line for at, line in enumerate(lines[part.first : part.last + 1], part.first) if at not in inside)

    inside = {at for part in known for at in range(part.first, part.last + 1)}
    words = {entry, *_words(line for at, line in enumerate(lines) if at not in inside)}
    classes = {part.name for part in known if lines[part.first].startswith("class ")}
    reached, left, names = set[Part](), list(known), set[str]()
    while additions := [
        part
        for part in left
        if (part.name in words or part.name.startswith("__")) and (part.owner not in classes or part.owner in names)
    ]:
        reached.update(additions)
        names.update(part.name for part in additions if part.name in classes)
        left = [part for part in left if part not in reached]
        words.update(*(words_of(part) for part in additions))
    return reached


def _words(lines: Iterable[str]) -> frozenset[str]:
    """Words of code, not of docstrings and comments."""
    return names_in(_code("".join(lines)))


def _code(text: str) -> str:
    """The text without docstrings and comments."""
    return "".join(_COMMENT.sub("", line) for line in _TEXT.sub("", text).splitlines(keepends=True))


def _is_numbers(lines: Sequence[str], part: Part) -> bool:
    table = part.text(lines) if part.is_table else ""
    letters = sum(map(str.isalpha, table))
    return len(table) >= LONG_TABLE and letters <= MOST_LETTERS * len(table) and letters < sum(map(str.isdigit, table))


def _without(lines: Sequence[str], hidden: Iterable[Part]) -> str:
    """The lines with a line for each of these parts that may go."""
    if any(is_folded(line) for line in lines):
        return "".join(lines)
    hidden = [part for part in hidden if _may_go(lines, part)]
    text, at = list[str](), 0
    for part, following in zip_longest(hidden, hidden[1:]):
        text += lines[at : part.first]
        at = part.last + 1
        if following is not None and _margin(following.head) == _margin(part.head):
            between = lines[at : following.first]
            at = at if "".join(between).strip() else following.first
        text.append(part.folded(at))
    return "".join([*text, *lines[at:]])


def unfolded(text: str, view: str, program: str) -> str:
    """The text with the folded lines that it took from `view`, a folded `program`, replaced by what they stand for."""
    lines = program.splitlines(keepends=True)
    whole = {line: "".join(lines[first:last]) for line, first, last in _ranges(view)}
    return "".join(whole.get(line.rstrip(), line) for line in text.splitlines(keepends=True))


def lost_names(text: str, view: str, program: str) -> list[str]:
    """Names of what is folded in `view` and lost in the text, which has neither the line nor a definition. Only those
    that `program`, which is made of the text, uses."""
    lines, code = {line.rstrip() for line in text.splitlines()}, _code(program)
    names = [(line, _name_of(line)) for line, _, _ in _ranges(view)]
    lost = [(line, name) for line, name in names if line not in lines and not _defines(text, name)]
    return [name for line, name in lost if _uses(code, name, as_method=line[0].isspace())]


def _uses(code: str, name: str, *, as_method: bool) -> bool:
    """Whether the code uses a function or table, or a method. An attribute that the code sets is no method."""
    name = re.escape(name)
    if not as_method:
        return re.search(rf"(?<![\w.]){name}\b", code) is not None
    return re.search(rf"\.{name}\b", code) is not None and not re.search(rf"\.{name}[ \t]*=(?!=)", code)


def changed_names(program: str, others: Iterable[str]) -> frozenset[str]:
    """Names of the program's functions and tables that one of the others does not have in the same words."""
    lines = program.splitlines(keepends=True)
    texts = {part.name: part.text(lines) for part in parts_of(program)}
    return frozenset(name for other in others for name, text in texts.items() if text not in other)


@lru_cache(maxsize=512)
def parts_of(program: str) -> tuple[Part, ...]:
    """The parts of a program."""
    return tuple(parts(program.splitlines(keepends=True)))


def parts(lines: Sequence[str]) -> Iterator[Part]:
    """Functions and tables at the margin and methods of classes at the margin, in order."""
    at, inner, owner = 0, "", ""
    while at < len(lines):
        line = lines[at]
        if line.strip() and not line[0].isspace():
            inner = ""
        match = _DEFINITION.match(line)
        part = None
        if match is None:
            part = _table(lines, at)
        elif match[2] == "class" and not match[1]:
            inner, owner = _margin_below(lines, at), match[3]
        elif match[2] == "def" and match[1] in ("", inner):
            part = _function(lines, at, match)
            if part is not None and match[1]:
                part = replace(part, names=part.names | {owner}, owner=owner)
        if part is not None:
            yield part
        at = at + 1 if part is None else part.last + 1


def _function(lines: Sequence[str], first: int, match: re.Match[str]) -> Part | None:
    """The function that begins here, None if it is on one line."""
    signature = list[str]()
    depth = 0
    for line in lines[first : first + LONGEST_SIGNATURE]:
        signature.append(_COMMENT.sub("", line.rstrip()).strip())
        depth += _depth(signature[-1])
        if depth <= 0:
            break
    if depth > 0 or not signature[-1].endswith(":"):
        return None
    body, last = first + len(signature), first + len(signature) - 1
    for at in range(body, len(lines)):
        if lines[at].strip():
            if len(_margin(lines[at])) <= len(match[1]):
                break
            last = at
    inside = (definition[3] for line in lines[body : last + 1] if (definition := _DEFINITION.match(line)))
    head = match[1] + re.sub(r"([(\[]) | (?=[)\]])", r"\1", " ".join(signature))
    return Part(match[3], frozenset((match[3], *inside)), head, first, body, last)


def _table(lines: Sequence[str], first: int) -> Part | None:
    """The assignment of several lines that begins here at the margin."""
    match = _TABLE.match(lines[first])
    if match is None:
        return None
    depth, last = 0, first
    for last in range(first, len(lines)):
        depth += _depth(_COMMENT.sub("", lines[last].rstrip()))
        if depth <= 0:
            break
    if depth > 0 or last - first + 1 < LEAST_TABLE:
        return None
    keys = (
        key
        for line in lines[first + 1 : last + 1]
        for groups in _KEY.findall(line)
        for key in groups
        if len(key) >= LEAST_KEY
    )
    return Part(match[1], frozenset((match[1], *keys)), f"{match[1]} =", first, first + 1, last, is_table=True)


def _may_go(lines: Sequence[str], part: Part) -> bool:
    """Not what is short, and nothing around the block's marks."""
    inside = lines[part.body : part.last + 1]
    return sum(map(len, inside)) >= LEAST_SAVED and not any(is_marked(line) for line in inside)


def _depth(code: str) -> int:
    return sum(code.count(mark) for mark in "([{") - sum(code.count(mark) for mark in ")]}")


def _margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _margin_below(lines: Sequence[str], at: int) -> str:
    """White space before the first line of a class's body."""
    following = next((line for line in lines[at + 1 :] if line.strip()), "")
    return _margin(following) or "\0"


def _ranges(view: str) -> Iterator[tuple[str, int, int]]:
    """The folded lines of a text, and from where to where they stand in the program."""
    for line in view.splitlines():
        if match := _FOLDED.search(line):
            yield line.rstrip(), int(match[1]) - 1, int(match[2])


def _name_of(line: str) -> str:
    match = _DEFINITION.match(line)
    return match[3] if match is not None else line.partition(" ")[0]


def _defines(text: str, name: str) -> bool:
    """Whether the text defines the name, by more than three dots."""
    name = re.escape(name)
    pattern = rf"^[ \t]*(?:(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b|{name}[ \t]*(?::[^=\n]+)?=)(?P<rest>.*(?:\n.*)?)"
    return any(not _STUB.search(match["rest"]) for match in re.finditer(pattern, text, re.MULTILINE))
