"""A program as a set of files: paths to texts. Pure.

Everywhere else a program is one text. A program of several files has a text too, in which a line before each file says
its path and its length, so that no content can be taken for such a line:

    #!pace files
    == src/moves.py 812 ==
    (812 characters)

Invariants: the files stand in the order of their paths, so equal sets have equal texts. Reading a text gives the set
back, character for character. A text that does not begin with the first line is a program of one file without a name,
whose text and digest are its own.

In a database a set stands as a manifest, which has the digest of each file in place of its text. So a file is kept
once, however many programs have it.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from pace_async.programs.paths import why_not_together, why_refused

FIRST_LINE = "#!pace files\n"
MANIFEST_LINE = "#!pace manifest\n"
UNNAMED = ""
"""The path of the file of a program that has only one."""
LONGEST_SET = 1 << 20
"""Characters of all files of a program together."""


class NotAProgram(ValueError):
    """A set of files that no program may have, or a text that does not read as one. The message is one sentence."""


class TooLong(NotAProgram):
    """The files have too many characters together."""


@dataclass(frozen=True, slots=True)
class Program:
    """Paths to texts, in the order of the paths. `files` cannot be changed."""

    files: Mapping[str, str]

    @classmethod
    def of_files(cls, files: Mapping[str, str]) -> "Program":
        """A program of these files. Raises NotAProgram for a path that leads elsewhere, for paths that cannot stand
        together, and for more than LONGEST_SET characters."""
        if not files:
            raise NotAProgram("the program has no file")
        reason = why_not_together(files) or next((reason for path in files if (reason := why_refused(path))), "")
        if reason:
            raise NotAProgram(reason)
        size = sum(map(len, files.values()))
        if size > LONGEST_SET:
            raise TooLong(f"its files have {size:,} characters, of {LONGEST_SET:,} allowed")
        return cls(MappingProxyType(dict(sorted(files.items()))))

    @classmethod
    def of(cls, text: str) -> "Program":
        """The program that a text stands for. Raises NotAProgram for a damaged text of several files."""
        return _of(text) if is_fileset(text) else cls(MappingProxyType({UNNAMED: text}))

    @property
    def is_set(self) -> bool:
        """Whether its files have paths."""
        return UNNAMED not in self.files

    @property
    def text(self) -> str:
        """The one text of the program."""
        if not self.is_set:
            return self.files[UNNAMED]
        return FIRST_LINE + "".join(f"== {path} {len(text)} ==\n{text}\n" for path, text in self.files.items())

    @property
    def manifest(self) -> str:
        """The digest and the path of each file, a line each. Only of a set."""
        return MANIFEST_LINE + "".join(f"{file_digest(text)} {path}\n" for path, text in self.files.items())

    @property
    def digest(self) -> str:
        """32 hex digits: of a set, over its manifest; of a single file, over its characters."""
        return file_digest(self.manifest if self.is_set else f"\0{self.files[UNNAMED]}")

    @property
    def characters(self) -> int:
        """Of all files together."""
        return sum(map(len, self.files.values()))


def is_fileset(text: str) -> bool:
    """Whether a text is that of a program of several files."""
    return text.startswith(FIRST_LINE)


def is_manifest(text: str) -> bool:
    """Whether a text is the manifest of a program of several files."""
    return text.startswith(MANIFEST_LINE)


def file_digest(text: str) -> str:
    """32 hex digits of the SHA-256 of a text in UTF-8."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def from_manifest(manifest: str, text_of: Callable[[str], str]) -> str:
    """The text of the program with this manifest. `text_of` gives the text with a digest; what it raises is raised."""
    lines = manifest.removeprefix(MANIFEST_LINE).splitlines()
    files = {path: text_of(digest) for digest, _, path in (line.partition(" ") for line in lines)}
    return Program(MappingProxyType(files)).text


def changed_paths(before: Program, after: Program) -> list[str]:
    """The paths of files that one has and the other has not, or has with another text, in order."""
    both = before.files.keys() | after.files.keys()
    return sorted(path for path in both if before.files.get(path) != after.files.get(path))


@lru_cache(maxsize=16)
def _of(text: str) -> Program:
    files = dict(_files(text))
    if list(files) != sorted(files):
        raise NotAProgram("the files of the program are not in order")
    return Program.of_files(files)


def _files(text: str) -> Iterator[tuple[str, str]]:
    at = len(FIRST_LINE)
    while at < len(text):
        end = text.find("\n", at)
        path, _, size = text[at:end].removeprefix("== ").removesuffix(" ==").rpartition(" ")
        if end < 0 or not text.startswith("== ", at) or not size.isascii() or not size.isdecimal():
            raise NotAProgram("the text of a program of several files is damaged")
        begin, at = end + 1, end + 1 + int(size)
        if at >= len(text) or text[at] != "\n":
            raise NotAProgram("the text of a program of several files is damaged")
        yield path, text[begin:at]
        at += 1
