"""An ordered table from a name to an entry."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Generic, TypeVar, cast


@dataclass(frozen=True, slots=True)
class Entry:
    """A thing that can be chosen. `about` is a phrase without a full stop at its end. `code` is `module:attribute`, the
    form of an entry point. It is empty if there is nothing to run."""

    name: str
    about: str
    code: str = ""

    def load(self) -> object:
        """The object that `code` names. Its module is imported on first use. Raises ImportError, AttributeError."""
        return load_code(self.code)


def load_code(code: str) -> object:
    """What `module:attribute` names. Raises ImportError, AttributeError."""
    module, _, attribute = code.partition(":")
    return cast("object", getattr(_imported(module), attribute))


_imported = cache(import_module)
"""Code is loaded several times a candidate, and `import_module` takes its locks each time."""


E = TypeVar("E", bound=Entry)


class Registry(Mapping[str, E], Generic[E]):
    """Entries by name, in the order of the table. `kind` is the noun for an entry in a sentence."""

    def __init__(self, kind: str, *entries: E) -> None:
        self.kind = kind
        self._entries: dict[str, E] = {}
        for entry in entries:
            self.add(entry)

    def add(self, entry: E) -> None:
        """Append an entry. Raises ValueError for a name that is taken."""
        if entry.name in self._entries:
            raise ValueError(f"there is already a {self.kind} {entry.name!r}")
        self._entries[entry.name] = entry

    def __getitem__(self, name: str) -> E:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def named(self, name: str) -> E:
        """The entry of this name. Raises ValueError with the nearest known name."""
        if name in self._entries:
            return self._entries[name]
        raise ValueError(self.unknown(name))

    def unknown(self, name: str) -> str:
        """A sentence without a full stop about a name that is not in the table."""
        near = get_close_matches(name, self._entries, n=1, cutoff=0.5)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"unknown {self.kind} {name!r}{hint}: there is {self.listed()}"

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
