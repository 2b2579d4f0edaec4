"""A run's header with the settings that resumes changed, as its own screen shows them. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from pace_async.events import RunHeader

_OF_ITS_OWN = {"implementer.model": "implementer", "staleness.max_staleness": "max_staleness"}
"""Settings that the header also has as a field."""


def in_force(header: RunHeader, changes: Mapping[str, object]) -> RunHeader:
    """`changes` are values by dotted key, as `Standing.changes`."""
    for key, value in changes.items():
        section, _, name = key.partition(".")
        part = header.config.get(section)
        whole = {**(cast("Mapping[str, Any]", part) if isinstance(part, Mapping) else {}), name: value}
        fields: dict[str, Any] = {_OF_ITS_OWN[key]: value} if key in _OF_ITS_OWN else {}
        header = replace(header, config={**header.config, section: whole if name else value}, **fields)
    return header
