"""Colours of a program's words, line by line. Pure.

Invariant: the text of the result is the text that was given, escaped. A word that is coloured wrongly is still there.
Not a parser: each line is read alone, so a string of several lines is coloured only where it begins.
"""

import re
from keyword import kwlist

from pace_async.report.difference import DiffLine
from pace_async.report.markup import Content, Markup, join, tag

MOST = 100_000
"""Characters of a text that is coloured. A longer one is shown without colours."""
_WORDS = frozenset(kwlist) | {
    *("auto", "bool", "case", "char", "const", "constexpr", "do", "double", "enum", "extern", "float", "fn", "goto"),
    *("impl", "inline", "int", "let", "long", "mut", "namespace", "new", "private", "pub", "public", "short"),
    *("signed", "sizeof", "static", "struct", "switch", "template", "typedef", "typename", "unsigned", "use", "using"),
    *("self", "void", "volatile", "function", "var"),
}
_PARTS = re.compile(
    r"(?P<comment>(?:#|//(?=[ /])).*)"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<figure>\b\d[\w.]*)"
    r"|(?P<word>[A-Za-z_]\w*)"
)


def coloured(text: str) -> Markup:
    """`text` with its comments, strings, numbers and keywords marked."""
    if len(text) > MOST:
        return join([text])
    parts: list[Markup | str] = []
    at = 0
    for match in _PARTS.finditer(text):
        kind, token = str(match.lastgroup), match.group()
        if kind == "word":
            if token not in _WORDS:
                continue
            kind = "keyword"
        elif token.startswith("//") and _divides(text, match.start()):
            continue
        parts += [text[at : match.start()], tag("i", token, class_=kind)]
        at = match.end()
    return join([*parts, text[at:]])


def line_of(line: DiffLine) -> Content:
    """A line of a diff, its sign without a colour."""
    if line.kind not in ("same", "added", "removed"):
        return line.text
    return join([line.text[:1], coloured(line.text[1:])])


def _divides(text: str, at: int) -> bool:
    """Whether `//` at this place is Python's division: something that can be divided is before it, on the same line,
    and no sign that ends a statement of another language."""
    before = text[:at].rpartition("\n")[2].rstrip()
    return bool(before) and before[-1] not in ";{},"
