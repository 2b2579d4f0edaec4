"""The best program of a run as a file for the user, and for a program of the user's own the way there as a patch.

Invariant: RUN/best.diff, where there is one, leads to the program in RUN/best.py: one function writes both.
"""

from difflib import unified_diff
from pathlib import Path

from pace_async.durable import disk_fault, write_whole
from pace_async.runtime.run_paths import RunPaths


def write_best(paths: RunPaths, suffix: str, program: str) -> Path:
    """Write the program, and its difference to the user's in a run of `pace optimize`. Returns the program's file.
    Raises InfrastructureFault."""
    path = paths.best(suffix)
    write_whole(path, program)
    try:
        if paths.own_program.is_file():
            name = paths.own_program.read_text(encoding="utf-8").strip()
            own = (paths.own_task / Path(name).name).read_text(encoding="utf-8")
            if patch := difference(own, program, name):
                write_whole(paths.difference, patch)
            else:
                paths.difference.unlink(missing_ok=True)
    except OSError as error:
        raise disk_fault(error, paths.difference) from error
    return path


def difference(before: str, after: str, name: str) -> str:
    """What leads from one text to the other, as `patch -p1` takes it. Empty for equal texts."""
    lines = unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def how_to_apply(paths: RunPaths, suffix: str) -> list[str]:
    """Where the best program of the user's own is and how to take it over, empty without a better one."""
    if not paths.difference.is_file():
        return []
    return [
        f"The best program is {paths.best(suffix)}.",
        f"Its difference to yours is {paths.difference}: `patch -p1 < {paths.difference}` applies it.",
    ]
