"""The languages that a program may be written in: how comments, code blocks, assignments and compiler errors look.

A program may be in any language. A language that is not in the table uses `OTHER`, whose patterns are the most common
ones. Pure: `evaluate.sandbox.toolchain` finds installed compilers.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

PYTHON = "python"
BUILD_FAILED = "the build failed: "
"""Beginning of the detail of a program that could not be built."""
PROGRAM_ENDED = "the program ended before its last answer"
"""What the detail of a program begins with that ended too early."""
EVALUATOR_ENDED = "the evaluator ended with "
"""Beginning of the detail of a program whose evaluator, in a command task, ended with an error."""
_C_LIKE = r"(?:[\w:<>&*\[\] \t]*[\w>&*\]][ \t&*]+)?{name}(?:\[\])?(?:[ \t]*:[ \t]*[\w<>&\[\]' ]+)?[ \t]*(?::=|=)[ \t]*"


@dataclass(frozen=True, slots=True)
class Language:
    """`comment` begins a comment that ends with its line. `fences` are names that a code block in it may carry.
    `assignment` is a pattern of what stands before the value of the assignment to {name}, `error` one of the line with
    which a compiler's first error begins, and `error_lines` how many lines it takes. `tools` are programs by which its
    installation is found, `packages` what to install on Debian 12, nothing where it
    has no package. `build` and `run` are commands for a program in {file}.
    `needs_threads`: no program of it starts with one thread, or without a further process, or in a bounded address
    space. `environment` is set for builds and runs."""

    name: str
    title: str
    comment: str
    suffix: str
    fences: tuple[str, ...]
    packages: str
    tools: tuple[str, ...]
    build: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    assignment: str = _C_LIKE
    error: str = r"(?i)\berror\b"
    error_lines: int = 1
    needs_threads: bool = False
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


_BUILT = ("./program",)
_PARSED_JULIA = (
    'found = Meta.parse("begin " * read("{file}", String) * "\\nend", raise = false); '
    'found.head in (:error, :incomplete) && (println(stderr, "ERROR: {file}: ", found.args[1]); exit(1))'
)
_ALL = (
    Language(
        *(PYTHON, "Python", "#", "py", ("python", "py", "python3"), "python3", ("python3",)),
        run=("python3", "{file}"),
        assignment=r"{name}[ \t]*=[ \t]*",
    ),
    Language(
        *("c", "C", "//", "c", ("c",), "gcc libc6-dev", ("gcc",)),
        build=("gcc", "-O2", "-std=c17", "-o", "program", "{file}", "-lm"),
        run=_BUILT,
        error=r"\berror: ",
    ),
    Language(
        *("c++", "C++", "//", "cpp", ("cpp", "c++", "cxx", "cc"), "g++", ("g++",)),
        build=("g++", "-O2", "-std=c++17", "-o", "program", "{file}"),
        run=_BUILT,
        error=r"\berror: ",
    ),
    Language(
        *("rust", "Rust", "//", "rs", ("rust", "rs"), "rustc", ("rustc",)),
        build=("rustc", "-O", "--edition", "2021", "-o", "program", "{file}"),
        run=_BUILT,
        error=r"^error",
        error_lines=2,
    ),
    Language(
        *("go", "Go", "//", "go", ("go", "golang"), "golang-go", ("go",)),
        build=("go", "build", "-o", "program", "{file}"),
        run=_BUILT,
        assignment=r"(?:(?:var|const)[ \t]+)?{name}(?:[ \t]+[\w\[\]*.]+)?[ \t]*:?=[ \t]*",
        error=r"^\S+\.go:\d+",
        needs_threads=True,
        environment={"GOMAXPROCS": "2", "GOPROXY": "off", "GOTOOLCHAIN": "local", "GO111MODULE": "off"},
    ),
    Language(
        *("fortran", "Fortran", "!", "f90", ("fortran", "f90", "f95"), "gfortran", ("gfortran",)),
        build=("gfortran", "-O2", "-o", "program", "{file}"),
        run=_BUILT,
        assignment=r"(?:[\w(), *=:]*::[ \t]*)?{name}[ \t]*=[ \t]*",
        error=r"^\S+\.\w+:\d+:\d+:",
        error_lines=5,
    ),
    Language(
        *("r", "R", "#", "R", ("r",), "r-base-core", ("Rscript",)),
        build=("Rscript", "--vanilla", "-e", "invisible(parse('{file}'))"),
        run=("Rscript", "--vanilla", "{file}"),
        assignment=r"{name}[ \t]*(?:<-|=)[ \t]*",
        error=r"^Error",
        error_lines=2,
        needs_threads=True,  # its front end is a shell script
    ),
    Language(
        *("julia", "Julia", "#", "jl", ("julia", "jl"), "", ("julia",)),
        build=("julia", "--startup-file=no", "-e", _PARSED_JULIA),
        run=("julia", "--startup-file=no", "{file}"),
        assignment=r"(?:const[ \t]+)?{name}(?:::\w+)?[ \t]*=[ \t]*",
        error=r"^ERROR",
        error_lines=2,
        needs_threads=True,
        environment={"JULIA_NUM_THREADS": "1", "JULIA_PKG_OFFLINE": "true"},
    ),
    Language(
        *("shell", "Shell", "#", "sh", ("sh", "bash", "shell"), "dash", ("sh",)),
        run=("sh", "{file}"),
        assignment=r"(?:export[ \t]+)?{name}=",
        needs_threads=True,  # each command is a process
    ),
)
LANGUAGES: Mapping[str, Language] = {language.name: language for language in _ALL}
OTHER = Language("", "", "", "", (), "", ())
COMMENTS = tuple(dict.fromkeys((*(language.comment for language in _ALL), "--", "%", ";")))
"""What may stand before a mark."""


def language_called(name: str) -> Language | None:
    """The language of the table that a user means by its name, or by the name of a code block."""
    key = name.lower()
    return next((language for language in _ALL if key == language.name or key in language.fences), None)


def language_of(name: str) -> Language:
    """The language of this name. One that is not in the table has its name as its fence."""
    return LANGUAGES.get(name) or replace(OTHER, name=name, title=name.capitalize(), fences=(name,))


def first_error(language: Language, output: str) -> str:
    """The first error of a compiler's output, in one line, or its last line if no line looks like an error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    start = next((number for number, line in enumerate(lines) if re.search(language.error, line)), None)
    if start is None:
        return lines[-1] if lines else ""
    excerpt = lines[start : start + language.error_lines]
    return " ".join(line for line in excerpt if not re.fullmatch(r"[\d\s|^~]*|\d+ \|.*", line))
