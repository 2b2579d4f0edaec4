"""The seam between a run and experiment loggers."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal, Protocol

_ODD = re.compile(r"[^\w.-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """The run of a log. `run` is its name, `began` when it was made, in seconds since the epoch. `folder` is its
    folder, None for a run that is known by its database alone."""

    run: str
    task: str
    began: float
    folder: Path | None
    settings: Mapping[str, object]

    @property
    def id(self) -> str:
        """The run's id in a logger that many runs share: its name, and eight digits of when it was made. Runs of the
        same name in two folders differ, and a resumed run has the id that it had."""
        return f"{_ODD.sub('_', self.run)[:80]}-{sha256(repr(self.began).encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class Completion:
    """A rollout of a group that was shipped: what the advisor answered, and the result. `advantage` is None if the
    group is skipped. `outcome`, `experiment` and `completion` are empty where they are not known. `completion` is text
    that a model wrote: a logger must show it as text."""

    candidate: int
    staleness: int
    reward: float
    advantage: float | None
    outcome: str
    score: float | None
    experiment: str
    completion: str


@dataclass(frozen=True, slots=True)
class Record:
    """Figures of one moment, on every axis: `candidates` complete, the learner's `update`, `seconds` since the run was
    made (pauses between processes included), and `usd` spent. `kind` says which of the first two counts these figures.
    `at` is in seconds since the epoch. `completions` are those of a group that is shipped: a logger without tables
    leaves them out."""

    kind: Literal["candidate", "update"]
    at: float
    candidates: int
    update: int
    seconds: float
    usd: float
    values: Mapping[str, float]
    completions: tuple[Completion, ...] = ()


class LogFailed(Exception):
    """A logger that writes later than it is given records has failed, for the reason that this says."""


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
