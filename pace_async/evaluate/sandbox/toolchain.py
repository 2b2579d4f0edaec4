"""The files of this machine with which programs of a process task are built and run.

The whole of /usr is shown, read-only. A compiler or interpreter from another place brings the folder of its
installation with it. A candidate sees nothing else.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pace_async.errors import UsageError
from pace_async.programs.languages import PYTHON
from pace_async.task import Task, TaskSpec

SYSTEM = ("/usr", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/R")
PYTHONS = ("python", "python3")
"""Names by which an evaluator's command means the Python that runs pace."""
STANDARD_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
ASK_S = 20.0
_PYTHON = ("-c", "import sys; print(sys.base_prefix)")
_ASKED_FOR_ITSELF = {
    "rustc": ("--print", "sysroot"),
    "go": ("env", "GOROOT"),
    "python3": _PYTHON,
    "python": _PYTHON,
}
"""Commands that report where their installation lies. The file on the path may be a script that chooses among several
installations and cannot run in a sandbox."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """`readable` are the files and folders to show, `path` what to look for commands in, and `identity` changes with
    the commands themselves."""

    readable: tuple[Path, ...]
    path: str
    identity: str


def find_toolchain(task: Task) -> Toolchain:
    """Raises UsageError for a command that is not there."""
    if lacking := lacks_tools(task):
        raise UsageError(lacking)
    readable = [folder for folder in map(Path, SYSTEM) if folder.exists()]
    commands: list[Path] = []
    places: list[str] = []
    for name in _commands(task.spec):
        found = Path(shutil.which(name) or name)
        commands.append(found)
        prefix = _prefix(found)
        if not prefix.is_relative_to("/usr"):
            readable.append(prefix)
            places.append(str(prefix / "bin" if (prefix / "bin").is_dir() else prefix))
    identity = " ".join(_identity(command) for command in commands)
    return Toolchain(tuple(dict.fromkeys(readable)), ":".join(dict.fromkeys((*places, *STANDARD_PATH))), identity)


def lacks_tools(task: Task) -> str:
    """Why this machine cannot build, run or evaluate the programs of a task, or nothing."""
    for name in task.spec.evaluate[:1]:
        if "/" in name and not name.startswith("/") and not os.access(task.folder / name, os.X_OK):
            return (
                f"Task {task.name!r} evaluates its programs with {name}, which is no file of its folder that may be "
                "executed: correct evaluate in task.yaml, or make it executable (chmod +x)."
            )
    missing = [name for name in _commands(task.spec) if shutil.which(name) is None]
    return _missing(task, missing[0]) if missing else ""


def _commands(spec: TaskSpec) -> list[str]:
    """The commands that the build does not make, which have no relative path. `python` in an evaluator's command is the
    Python that runs pace, which is there."""
    names = [command[0] for command in (spec.build, spec.run) if command]
    names += [name for name in spec.evaluate[:1] if name not in PYTHONS]
    if spec.is_command and spec.language != PYTHON:
        names += spec.written_in.tools  # its evaluator starts them
    return [name for name in dict.fromkeys(names) if "/" not in name or name.startswith("/")]


def _missing(task: Task, name: str) -> str:
    language = task.spec.written_in
    what = "builds" if task.spec.build and task.spec.build[0] == name else "runs"
    what = "evaluates" if task.spec.is_command else what
    remedy = "install it, or name another command in task.yaml"
    if language.packages and name in language.tools:
        remedy = f"install it (on Debian: apt-get install {language.packages})"
    return f"Task {task.name!r} {what} its programs with {name}, which is not on this machine: {remedy}."


@cache
def _prefix(command: Path) -> Path:
    """The folder of an installation: as its command reports it, or where the command's real path lies. Never a home
    directory."""
    asked = _ASKED_FOR_ITSELF.get(command.name)
    if asked is not None:
        try:
            said = subprocess.run([command, *asked], capture_output=True, text=True, timeout=ASK_S, check=True).stdout
            if said.strip() and Path(said.strip()).is_dir():
                return Path(said.strip()).resolve()
        except (OSError, subprocess.SubprocessError):
            pass
    real = command.resolve()
    above = real.parent.parent
    if real.parent.name == "bin" and (above.parent.is_relative_to("/opt") or above.is_relative_to("/usr")):
        return above
    return real.parent


def _identity(command: Path) -> str:
    real = command.resolve()
    stat = real.stat()
    return f"{real}-{stat.st_size}-{stat.st_mtime_ns}"
