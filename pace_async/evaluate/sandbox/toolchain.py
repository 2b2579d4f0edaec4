"""The files of this machine with which programs of a process task are built and run.

The whole of /usr is shown, read-only. A compiler or interpreter from another place brings the folder of its
installation with it. A candidate sees nothing else.
"""

import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pace_async.errors import UsageError
from pace_async.task import Task, TaskSpec

SYSTEM = ("/usr", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/R")
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
    """Raises UsageError for a command that is not installed."""
    readable = [folder for folder in map(Path, SYSTEM) if folder.exists()]
    commands: list[Path] = []
    places: list[str] = []
    for name in _commands(task.spec):
        found = shutil.which(name)
        if found is None:
            raise UsageError(_missing(task, name))
        commands.append(Path(found))
        prefix = _prefix(Path(found))
        if not prefix.is_relative_to("/usr"):
            readable.append(prefix)
            places.append(str(prefix / "bin" if (prefix / "bin").is_dir() else prefix))
    identity = " ".join(_identity(command) for command in commands)
    return Toolchain(tuple(dict.fromkeys(readable)), ":".join(dict.fromkeys((*places, *STANDARD_PATH))), identity)


def lacks_tools(task: Task) -> str:
    """Why this machine cannot build or run the programs of a process task, or nothing."""
    missing = [name for name in _commands(task.spec) if shutil.which(name) is None]
    return _missing(task, missing[0]) if missing else ""


def _commands(spec: TaskSpec) -> list[str]:
    """The commands that the build does not make, which have no relative path."""
    names = [command[0] for command in (spec.build, spec.run) if command]
    return [name for name in dict.fromkeys(names) if "/" not in name or name.startswith("/")]


def _missing(task: Task, name: str) -> str:
    language = task.spec.written_in
    what = "builds" if task.spec.build and task.spec.build[0] == name else "runs"
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
