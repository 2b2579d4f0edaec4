"""Watchers for tests: one that keeps its records, one that is down, one that hangs."""

import threading
from collections.abc import Sequence

from pace_async.errors import UsageError
from pace_async.observe.watchers.base import LogFailed, LoggedRun, Record


class KeptRecords:
    """Keeps what it is given."""

    def __init__(self, argument: str | None = None) -> None:
        self.argument = argument
        self.records: list[Record] = []
        self.begun: list[tuple[str, bool]] = []
        self.closed = False

    def begin(self, logged: LoggedRun, *, replay: bool) -> None:
        self.begun.append((logged.run, replay))

    def write(self, records: Sequence[Record]) -> None:
        self.records += records

    def close(self) -> None:
        self.closed = True


class Down(KeptRecords):
    """Refuses its first records."""

    def write(self, records: Sequence[Record]) -> None:
        raise ConnectionError("the \x1b[31mlogger is away")


class Refuses(KeptRecords):
    """Refuses its first records as a mistake of the user's."""

    def write(self, records: Sequence[Record]) -> None:
        raise UsageError("it has this run")


class Late(KeptRecords):
    """Takes everything, and fails at the end."""

    def close(self) -> None:
        raise LogFailed("it is full")


class Hangs(KeptRecords):
    """Answers to its first records only when `let_go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.let_go = threading.Event(), threading.Event()

    def write(self, records: Sequence[Record]) -> None:
        self.entered.set()
        self.let_go.wait(60)
        super().write(records)
