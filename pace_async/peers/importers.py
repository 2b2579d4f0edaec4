"""The projects whose examples become tasks: one class each, in a file of its own.

To add one, write its class, add an entry here, its test data to `tests/support/examples.py` and a paragraph to
`docs/import.md`. `tests/peers/test_importers.py` shows what every one of them does.

Invariant: nothing of an example is run or written to. Only `read` and `recognises` look into an example, and they are
called in a helper process with bounded time and memory.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pace_async.errors import UsageError
from pace_async.registry.base import Entry, Registry, later

if TYPE_CHECKING:
    from pace_async.peers import frontier_cs, galapagos, openevolve, shinka
    from pace_async.peers.example import Example, ImportOptions
else:
    frontier_cs, galapagos, openevolve, shinka = later(
        "pace_async.peers", "frontier_cs", "galapagos", "openevolve", "shinka"
    )


class Importer(Protocol):
    """Reads the examples of one project."""

    project: str
    """The project's name in sentences."""
    parts: Mapping[str, Path]
    """Files and folders of pace that go into each task, by the names that they get there."""

    def names(self) -> Sequence[str]:
        """The examples that can be imported by name. Empty where they are folders of the user's. Raises NotHere."""
        return ()

    def folder_of(self, name: str) -> Path:
        """The folder of an example that the user names. Raises UsageError if there is none, NotHere if a package that
        brings it is not installed."""
        if not Path(name).is_dir():
            raise UsageError(f"{name} is not a folder.")
        return Path(name)

    def recognises(self, folder: Path) -> bool:
        """Whether a folder looks like an example of this project. Raises UsageError if it cannot be read."""
        ...

    def read(self, folder: Path, options: "ImportOptions") -> "Example":
        """Raises UsageError for a folder that is no such example."""
        ...

    def complete(self, task: Path, example: "Example") -> None:
        """Add to the folder of a task what has to be made once, such as a compiled checker. Raises UsageError."""


IMPORTERS: Registry[Entry[Callable[[], Importer]]] = Registry(
    "project",
    Entry("openevolve", "an example of OpenEvolve", lambda: openevolve.OpenEvolve),
    Entry("shinka", "an example of ShinkaEvolve", lambda: shinka.Shinka),
    Entry("galapagos", "a task of Galapagos, by its name or its folder", lambda: galapagos.Galapagos),
    Entry("frontier-cs", "a problem of Frontier-CS", lambda: frontier_cs.FrontierCS),
)


def importer_of(name: str) -> Importer:
    """Raises UsageError for a project that is not known."""
    try:
        return IMPORTERS.named(name).load()()
    except ValueError as error:
        raise UsageError(f"Nothing can be imported of it: {error}.") from None


def looks_like_another(folder: Path, name: str) -> str:
    """What to say of a folder that is no example of the project `name` but one of other projects. Else nothing."""
    own = IMPORTERS[name].load()()
    if _recognises(own, folder):
        return ""
    others = {other: kind.load()() for other, kind in IMPORTERS.items() if other != name}
    matches = [
        f"{importer.project} (pace task import {other})"
        for other, importer in others.items()
        if _recognises(importer, folder)
    ]
    return (
        f"{folder} is not an example of {own.project}, but looks like one of {' or '.join(matches)}." if matches else ""
    )


def _recognises(importer: Importer, folder: Path) -> bool:
    try:
        return importer.recognises(folder)
    except UsageError:
        return False
