"""Chooses the watchers that `--log` names."""

from collections.abc import Sequence
from importlib.util import find_spec

from pace_async.errors import UsageError
from pace_async.installing import install_line
from pace_async.observe.watchers.base import Watcher, WatcherFactory
from pace_async.registry.watchers import WATCHERS

Chosen = tuple[str, Watcher]
"""A watcher and its name."""


def watchers_of(choices: Sequence[str], flag: str = "--log") -> list[Chosen]:
    """The watchers of `NAME` or `NAME=ARG`. Raises UsageError for an unknown name, a name given twice, and a package
    that is missing. Nothing of a logger is loaded."""
    watchers: list[Chosen] = []
    for choice in choices:
        name, equals, argument = choice.partition("=")
        if any(name == other for other, _ in watchers):
            raise UsageError(f"{flag} {name} was given twice.")
        watchers.append((name, _factory(name, flag)(argument if equals else None)))
    return watchers


def _factory(name: str, flag: str) -> WatcherFactory:
    try:
        entry = WATCHERS.named(name)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}.") from None
    if entry.needs and find_spec(entry.needs) is None:
        raise UsageError(f"{flag} {name} needs a package: {install_line(name)}.")
    return entry.load()
