"""An ordered table from a name to an entry.

A table may have a group of entry points. A name that is not in the table is then looked for among those that installed
packages add. Invariant: what packages add is looked for only by a name that the table lacks. So the commands that need
none start as fast as without it, and nothing of a package is imported before it is named.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """A thing that can be chosen. `about` is a phrase without a full stop at its end. `code` gives what is run. It is
    None if there is nothing to run."""

    name: str
    about: str
    code: Callable[[], T] | None = None

    def load(self) -> T:
        """What is run. Its module is imported on first use. Raises ImportError, AttributeError."""
        if self.code is None:
            raise ValueError(f"{self.name!r} has no code")
        return self.code()


class _Later:
    """A module that is imported when one of its names is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(_imported(self._name), attribute)


_imported = cache(import_module)
"""Code is loaded several times a candidate, and `import_module` takes its locks each time."""


def later(package: str, *modules: str) -> tuple[Any, ...]:
    """Modules of a package, imported when they are first used: what runs for the imports that a checker of types
    reads."""
    return tuple(_Later(f"{package}.{module}") for module in modules)


@cache
def entry_points_of(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group, by name. Packages are looked through once."""
    return {point.name: point for point in entry_points(group=group)}


E = TypeVar("E", bound=Entry[Any])


class Registry(Mapping[str, E], Generic[E]):
    """Entries by name, in the order of the table. `kind` is the noun for an entry in a sentence. `group` is that of the
    entry points, None if packages can add nothing. Iteration, length and help have the table's own entries only."""

    def __init__(self, kind: str, *entries: E, group: str | None = None) -> None:
        self.kind = kind
        self.group = group
        self._entries: dict[str, E] = {}
        self._of_packages: dict[str, E] = {}
        for entry in entries:
            self.add(entry)

    def add(self, entry: E) -> None:
        """Append an entry. Raises ValueError for a name that is taken."""
        if entry.name in self._entries:
            raise ValueError(f"there is already a {self.kind} {entry.name!r}")
        self._entries[entry.name] = entry

    def __getitem__(self, name: str) -> E:
        entry = self._entries.get(name)
        if entry is not None:
            return entry
        if name not in self._of_packages:
            if name not in self._points():
                raise KeyError(name)
            try:
                self._of_packages[name] = self._loaded(self._points()[name])
            except Exception as error:
                raise KeyError(name, f"{type(error).__name__}: {error}") from None
        return self._of_packages[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def named(self, name: str) -> E:
        """The entry of this name. Raises ValueError with the nearest known name."""
        if name in self:
            return self[name]
        raise ValueError(self.unknown(name))

    def unknown(self, name: str) -> str:
        """A sentence without a full stop about a name that is not in the table, or that a package adds and cannot be
        loaded."""
        points = self._points()
        if name in points:
            try:
                self[name]
            except KeyError as error:
                package = getattr(points[name].dist, "name", "a package")
                return f"the {self.kind} {name!r} of {package} cannot be loaded ({error.args[-1]})"
        near = get_close_matches(name, [*self._entries, *points], n=1, cutoff=0.5)
        hint = f" (did you mean {near[0]}?)" if near else ""
        more = f", and packages add {', '.join(sorted(points))}" if points else ""
        return f"unknown {self.kind} {name!r}{hint}: there is {self.listed()}{more}"

    def _points(self) -> Mapping[str, EntryPoint]:
        """What installed packages add, without the names that the table has."""
        if self.group is None:
            return {}
        return {name: point for name, point in entry_points_of(self.group).items() if name not in self._entries}

    def _loaded(self, point: EntryPoint) -> E:
        """The entry of a package: the object itself if it is one, which may name its code as an entry point does, else
        an entry whose code is the object."""
        value, kind = point.load(), type(next(iter(self._entries.values())))
        if type(value) is kind:
            code = (
                partial(resolve_name, value.code) if isinstance(value.code, str) else value.code
            )  # `module:attribute`
            return replace(value, name=point.name, code=code)
        if isinstance(value, Entry) or not callable(value):
            raise TypeError(f"{point.value} is neither a {kind.__name__} nor something to call")
        package = getattr(point.dist, "name", "a package")
        return kind(point.name, f"of the package {package}", lambda: value)

    def listed(self) -> str:
        """The names for a sentence, as in `a, b and c`."""
        *others, last = self._entries
        return f"{', '.join(others)} and {last}" if others else last

    def described(self) -> str:
        """Every name with its description, for a help text."""
        return " ".join(f"{entry.name}: {entry.about}." for entry in self._entries.values())

    def metavar(self) -> str:
        """The names as a placeholder of a flag, as in `a|b|c`."""
        return "|".join(self._entries)
