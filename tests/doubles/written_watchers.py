"""Watchers for a process of their own. Each writes what it sees into the file that is its argument."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pace_async.errors import UsageError
from pace_async.observe.watchers.base import LoggedRun, Record


class Written:
    """Writes a line of JSON for each call."""

    def __init__(self, argument: str | None = None) -> None:
        assert argument is not None
        self._file = Path(argument)

    def begin(self, logged: LoggedRun, *, replay: bool) -> None:
        print("begun", flush=True)
        self.say({"run": logged.run, "settings": logged.settings, "replay": replay})

    def write(self, records: Sequence[Record]) -> None:
        for record in records:
            self.say(asdict(record))

    def close(self) -> None:
        self.say({"closed": True})

    def say(self, what: object) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(what) + "\n")


class Fails(Written):
    """Refuses its third record."""

    def write(self, records: Sequence[Record]) -> None:
        if records[0].candidates == 3:
            raise ConnectionError("no third record")
        super().write(records)


class Refuses(Written):
    """Has the run already."""

    def begin(self, logged: LoggedRun, *, replay: bool) -> None:
        raise UsageError("it has this run")


class Dies(Written):
    """Ends its process at its first record."""

    def write(self, records: Sequence[Record]) -> None:
        sys.stderr.flush()
        os._exit(1)


class Environment(Written):
    """Writes what is in its environment."""

    def begin(self, logged: LoggedRun, *, replay: bool) -> None:
        self.say(dict(os.environ))

    def close(self) -> None:
        pass
