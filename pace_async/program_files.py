"""A program of several files as one text, and back.

Invariant: parting and joining gives the text back. A line `# FILE: name.py`, a comment to Python, stands before each
file. Edits, hashes and rows therefore deal with one text, and the files are parted only to be compiled or run. A text
that does not begin with such a line is one file without a name, even if such a line follows later.
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
    """(name, text) of each file, in order. Each text begins with the line that names it. A single file has no name."""
    if _HEADER.match(program) is None:
        return (("", program),)
    headers = list(_HEADER.finditer(program))
    ends = [header.start() for header in headers[1:]] + [len(program)]
    return tuple((header[1], program[header.start() : end]) for header, end in zip(headers, ends, strict=True))
