"""The seam between a run and experiment loggers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """The run of a log. `run` is its name, and the logger's id. `began` is when it was made, in seconds since the
    epoch. `folder` is its folder, None for a run that is known by its database alone."""

    run: str
    task: str
    began: float
    folder: Path | None
    settings: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Record:
    """Figures of one moment, on every axis: `candidates` complete, the learner's `update`, `seconds` since the run was
    made (pauses between processes included), and `usd` spent. `kind` says which of the first two counts these figures.
    `at` is in seconds since the epoch."""

    kind: Literal["candidate", "update"]
    at: float
    candidates: int
    update: int
    seconds: float
    usd: float
    values: Mapping[str, float]


class Watcher(Protocol):
    """Writes records into a logger. All calls come from one thread of its own, so each may block. An exception ends the
    watcher, never the run."""

    def begin(self, logged: LoggedRun, *, replay: bool) -> None:
        """Open the log, or go on in it. `replay`: all records of a run that has ended follow, so the log must be
        empty. Raises UsageError if it is not."""
        ...

    def write(self, records: Sequence[Record]) -> None:
        """Write records, in order, and make them visible."""
        ...

    def close(self) -> None:
        """Finish the log. Not called after an exception."""
        ...


WatcherFactory = Callable[[str | None], Watcher]
"""Makes a watcher from the ARG of `--log NAME=ARG`."""
