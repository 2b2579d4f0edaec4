"""The files of this machine with which programs of a process task are built and run.

The whole of /usr is shown, read-only. A compiler or interpreter from another place brings the folder of its
installation with it, and so does the prefix that a task names. A candidate sees nothing else.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from pace_async.errors import UsageError
from pace_async.evaluate.sandbox.environment import Environment, find_environment
from pace_async.evaluate.sandbox.installation import installation_of
from pace_async.task import Task, TaskSpec

SHOWN = "/usr"
SYSTEM = (SHOWN, "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/R")
STANDARD_PATH = ("/usr/local/bin", "/usr/bin", "/bin")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """`readable` are the files and folders to show, `path` what to look for commands in, and `identity` changes with
    the commands themselves. `has_python`: the task's prefix brings a Python."""

    readable: tuple[Path, ...]
    path: str
    identity: str
    has_python: bool = False


def find_toolchain(task: Task, environment: Environment) -> Toolchain:
    """Raises UsageError for a command that is not there."""
    if lacking := _lacks(task, environment):
        raise UsageError(lacking)
    readable = [folder for folder in map(Path, SYSTEM) if folder.exists()]
    readable += environment.readable
    commands: list[Path] = []
    places = list(environment.places)
    for name in _commands(task.spec):
        executable = Path(shutil.which(name, path=environment.search) or name)
        commands.append(executable)
        if any(executable.is_relative_to(folder) for folder in environment.readable):
            continue
        prefix = installation_of(executable)
        if not prefix.is_relative_to("/usr"):
            readable.append(prefix)
            places.append(str(prefix / "bin" if (prefix / "bin").is_dir() else prefix))
    identity = " ".join(_identity(command) for command in commands)
    path = ":".join(dict.fromkeys((*places, *STANDARD_PATH)))
    return Toolchain(tuple(dict.fromkeys(readable)), path, identity, environment.has_python)


def lacks_tools(task: Task) -> str:
    """Why this machine cannot build, run or evaluate the programs of a task, or nothing. Raises UsageError for a prefix
    or a variable that is not available."""
    return _lacks(task, find_environment(task))


def _lacks(task: Task, environment: Environment) -> str:
    for name in task.spec.evaluate[:1]:
        if "/" in name and not name.startswith("/") and not os.access(task.folder / name, os.X_OK):
            return (
                f"Task {task.name!r} evaluates its programs with {name}, which is not a file of its folder that may be "
                "executed: correct evaluate in task.yaml, or make it executable (chmod +x)."
            )
    missing = [name for name in _commands(task.spec) if shutil.which(name, path=environment.search) is None]
    return _missing(task, missing[0]) if missing else ""


def _commands(spec: TaskSpec) -> list[str]:
    """The commands that the build does not make, which have no relative path."""
    names = dict.fromkeys(name for name, _ in spec.of_kind.commands(spec))
    return [name for name in names if "/" not in name or name.startswith("/")]


def _missing(task: Task, name: str) -> str:
    language = task.spec.written_in
    verb = next(does for command, does in task.spec.of_kind.commands(task.spec) if command == name)
    remedy = "install it, or name another command in task.yaml"
    if language.packages and name in language.tools:
        remedy = f"install it (on Debian: apt-get install {language.packages})"
    return f"Task {task.name!r} {verb} its programs with {name}, which is not on this machine: {remedy}."


def _identity(command: Path) -> str:
    real = command.resolve()
    stat = real.stat()
    return f"{real}-{stat.st_size}-{stat.st_mtime_ns}"
