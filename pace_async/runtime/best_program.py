"""The best program of a run as a file for the user, and for a program of the user's own the way there as a patch. A
program of several files is the folder RUN/best, and RUN/best.patch leads there from the seed program.

Invariant: RUN/best.diff, where there is one, leads to the program in RUN/best.py: one function writes both. The same
holds for RUN/best.patch and RUN/best.
"""

import os
from difflib import unified_diff
from pathlib import Path

from pace_async.durable import disk_fault, write_whole
from pace_async.programs.fileset import Program, is_fileset
from pace_async.programs.unified import git_patch
from pace_async.removal import remove_tree
from pace_async.runtime.run_paths import RunPaths

CRLF = "crlf"
"""The line below the path of the user's program that says that its lines end with a carriage return too."""


def write_best(paths: RunPaths, suffix: str, program: str, seed: str = "") -> Path:
    """Write the program, and its difference to the user's in a run of `pace optimize`, or to the `seed` program if it
    has several files. Returns the program's file or folder. Raises InfrastructureFault."""
    path = paths.best(suffix)
    if is_fileset(program):
        _write_folder(path, Program.of(program))
        if led := git_patch(Program.of(seed), Program.of(program)):
            write_whole(paths.patch, led)
        else:
            paths.patch.unlink(missing_ok=True)
        return path
    try:
        lines = paths.own_program.read_text(encoding="utf-8").splitlines() if paths.own_program.is_file() else []
        program = _with_line_ends(program, CRLF in lines[1:])
        write_whole(path, program)
        if lines:
            own = (paths.own_task / Path(lines[0]).name).read_text(encoding="utf-8")
            if patch := difference(_with_line_ends(own, CRLF in lines[1:]), program, lines[0]):
                write_whole(paths.difference, patch)
            else:
                paths.difference.unlink(missing_ok=True)
    except OSError as error:
        raise disk_fault(error, paths.difference) from error
    return path


def write_files(folder: Path, program: Program) -> None:
    """Write the files of a program below a new or empty folder. Raises OSError."""
    for name, text in program.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8", errors="replace", newline="")


def _write_folder(path: Path, program: Program) -> None:
    """Put a folder with the program's files in the place of an older one. Raises InfrastructureFault."""
    draft, old = path.with_name(f".{path.name}.{os.getpid()}.tmp"), path.with_name(f".{path.name}.{os.getpid()}.old")
    try:
        remove_tree(draft)
        draft.mkdir()
        write_files(draft, program)
        if path.exists() or path.is_symlink():
            path.rename(old)
        draft.rename(path)
    except OSError as error:
        raise disk_fault(error, path) from error
    finally:
        remove_tree(draft)
        remove_tree(old)


def _with_line_ends(text: str, crlf: bool) -> str:
    """The text with the line ends of the user's program."""
    return text.replace("\r\n", "\n").replace("\n", "\r\n") if crlf else text


def difference(before: str, after: str, name: str) -> str:
    """What leads from one text to the other, as `patch -p1` takes it. Empty for equal texts."""
    lines = unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def how_to_apply(paths: RunPaths, suffix: str) -> list[str]:
    """Where the best program of the user's own is and how to take it over, empty without a better one."""
    if not suffix and paths.patch.is_file():
        return [
            f"The best program is the folder {paths.best(suffix)}.",
            f"Its difference to the seed program is {paths.patch}: `git apply {paths.patch}` applies it.",
        ]
    if not paths.difference.is_file():
        return []
    return [
        f"The best program is {paths.best(suffix)}.",
        f"Its difference to yours is {paths.difference}: `patch -p1 < {paths.difference}` applies it.",
    ]
