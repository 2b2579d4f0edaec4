"""A program of several files as one text, and back.

Invariant: parting and joining gives the text back. Before each file stands a line `# FILE: name.py`, a comment to
Python; so edits, hashes and rows deal with one text, and only where it is compiled or run do its files come apart. A
text that does not begin with such a line is one file without a name, whatever stands further down.
"""

import re
from collections.abc import Mapping

LINE_END = "\n"
FILE_NAME = r"[a-z_][a-z0-9_]*\.py"
_HEADER = re.compile(rf"^# FILE: ({FILE_NAME})[ \t]*$", re.MULTILINE)


def joined(files: Mapping[str, str]) -> str:
    """One text of these files, in order."""
    return "".join(f"# FILE: {name}\n{text.removesuffix(LINE_END)}{LINE_END}" for name, text in files.items())


def parted(program: str) -> tuple[tuple[str, str], ...]:
    """(name, text) of each file, in order, the line that names it being the first of its text; one without a name
    where the program is a single file."""
    if _HEADER.match(program) is None:
        return (("", program),)
    headers = list(_HEADER.finditer(program))
    ends = [header.start() for header in headers[1:]] + [len(program)]
    return tuple((header[1], program[header.start() : end]) for header, end in zip(headers, ends, strict=True))
