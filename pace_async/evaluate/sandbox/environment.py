"""What an evaluation sees of the user's environment: a prefix of conda or a virtual environment, and named variables.

Invariant: a variable that looks like a secret is never passed on, and no message and no identity contains a value.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pace_async.errors import UsageError
from pace_async.evaluate.sandbox.installation import installation_of
from pace_async.providers.redact import must_not_be_passed_on
from pace_async.task import Task
from pace_async.task.kinds.command import PYTHONS

MOST_LINKS = 16
"""Links that may lead from a prefix's Python to the file."""


@dataclass(frozen=True, slots=True)
class Environment:
    """`readable` are the files and folders to show, and links on the way to a Python. `places` are the folders of the
    prefix's commands, to be searched first. `passed_on` are the names of those `variables` that the task names.
    `has_python`: the prefix has its own Python. `identity` changes with the packages of the prefix and with the
    variables."""

    readable: tuple[Path, ...] = ()
    places: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    passed_on: tuple[str, ...] = ()
    has_python: bool = False
    identity: str = ""

    @property
    def search(self) -> str:
        """Where this machine has the commands: in the prefix, then on the path of pace."""
        return ":".join((*self.places, os.environ.get("PATH", os.defpath)))


def find_environment(task: Task, known: Mapping[str, str] | None = None) -> Environment:
    """The environment that a task asks for. `known` are the variables of the user's, by default of this process. Raises
    UsageError, in one sentence, for a prefix or a variable that is not available."""
    settings = task.spec.environment
    variables = {name: _passed_on(task, name, os.environ if known is None else known) for name in settings.variables}
    text = "".join(f"{name}={value}\0" for name, value in sorted(variables.items()))
    identity = f"variables-{_digest(text)}" if variables else ""
    if not settings.prefix:
        return Environment(variables=variables, passed_on=settings.variables, identity=identity)
    prefix = _prefix_folder(task, settings.prefix)
    python = next((prefix / "bin" / name for name in PYTHONS if (prefix / "bin" / name).exists()), None)
    further = {"VIRTUAL_ENV" if (prefix / "pyvenv.cfg").exists() else "CONDA_PREFIX": str(prefix)}
    return Environment(
        readable=(prefix, *(_reached_through(python, prefix) if python is not None else ())),
        places=(str(prefix / "bin"),),
        variables={**further, **variables},
        passed_on=settings.variables,
        has_python=python is not None,
        identity=f"prefix-{_digest(_contents(prefix))} {identity}".strip(),
    )


def _passed_on(task: Task, name: str, known: Mapping[str, str]) -> str:
    if name not in known:
        raise UsageError(
            f"Task {task.name!r} passes the variable {name} on, which is not set: set it, or take it out of "
            "environment.variables in task.yaml."
        )
    if must_not_be_passed_on(name, known[name]):
        raise UsageError(
            f"Task {task.name!r} passes the variable {name} on, which looks like a secret, and every program could "
            "read it: take it out of environment.variables in task.yaml."
        )
    return known[name]


def _prefix_folder(task: Task, name: str) -> Path:
    """The folder of the prefix. Only its last part may be a link."""
    path = task.folder / Path(name).expanduser()
    whose = f"Task {task.name!r}: environment.prefix names {name}"
    if not path.exists():
        raise UsageError(f"{whose}, which does not exist: make the environment, or correct task.yaml.")
    prefix = path.resolve()
    if not (prefix / "bin").is_dir():
        raise UsageError(f"{whose}, which has no folder bin, so it is not an environment of conda or of venv.")
    if prefix.is_relative_to(task.folder):
        raise UsageError(f"{whose}, which lies in the task's folder, where every file counts: make it elsewhere.")
    if any(folder.is_relative_to(prefix) for folder in (task.folder, Path.home().resolve())):
        raise UsageError(f"{whose}, which holds your home or the task, and programs would read all of it.")
    return prefix


def _reached_through(python: Path, prefix: Path) -> list[Path]:
    """What the Python of the prefix needs from outside the prefix: links to the file, and the installation that it is
    part of."""
    needed, step = list[Path](), python
    for _ in range(MOST_LINKS):
        if not step.is_relative_to(prefix) and step.is_symlink():
            needed.append(step)
        if not step.is_symlink():
            break
        step = Path(os.path.normpath(step.parent / step.readlink()))
    home = installation_of(python)
    return needed if home.is_relative_to(prefix) else [*needed, home]


def _contents(prefix: Path) -> str:
    """The names of the packages with their versions, as conda and pip record them, and the state of the Python."""
    packages = [*prefix.glob("conda-meta/*.json"), *prefix.glob("lib/python*/site-packages/*.dist-info")]
    pythons = [prefix / "bin" / name for name in PYTHONS if (prefix / "bin" / name).exists()]
    stats = [f"{python.resolve()} {python.stat().st_size} {python.stat().st_mtime_ns}" for python in pythons]
    return "\n".join([str(prefix), *sorted(path.name for path in packages), *stats])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
