"""Writes a run into a watcher, by following the run's facts.

Invariant: the run never waits for a watcher. A daemon thread reads the facts that are committed and writes their
records. A watcher that is slow falls behind and loses nothing while the run goes on. When the run has ended it has
LAST_S seconds for the rest, and is left then. One that fails is reported once and gets no more.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import anyio

from pace_async.errors import UsageError
from pace_async.events import RunHeader
from pace_async.observe.base import Event
from pace_async.observe.fold import fold
from pace_async.observe.formatting import clean
from pace_async.observe.model import RunView
from pace_async.observe.watchers.base import LogFailed, LoggedRun, Record, Watcher
from pace_async.observe.watchers.records import record_of
from pace_async.population.reading.following import Following
from pace_async.population.reading.reader import Reader, open_readonly
from pace_async.population.reading.said import RolloutAnswers, said_of

BATCH = 1000
LAST_S = 2.0
"""Seconds that a watcher has for its last records when the run has ended."""

log = logging.getLogger(__name__)


class Writing:
    """Writes the records of the facts after the fact `after`, at which the run was `view`."""

    def __init__(self, watcher: Watcher, logged: LoggedRun, reader: Reader, view: RunView, after: int = 0) -> None:
        self._watcher, self._began, self._reader, self._view = watcher, logged.began, reader, view
        self._following = Following(reader, after)
        self.written = 0

    def go_on(self) -> None:
        """Write the records of all facts so far. Raises what the watcher raises, UsageError only if no fact can
        be read."""
        while self._write_some():
            pass

    def _write_some(self) -> bool:
        """Write at most BATCH records, outside of any transaction. Whether there may be more."""
        batch: list[Record] = []
        try:
            with closing(self._following.news()) as news:
                for entry in news:
                    if isinstance(entry.fact, RunHeader):
                        continue
                    view = fold(self._view, entry.fact)
                    try:
                        record = record_of(entry.fact, view, self._began, self._said_of)
                    except UsageError:  # the database is away: this fact comes again
                        self._following.seq = entry.seq - 1
                        raise
                    self._view = view
                    if record is not None:
                        batch.append(record)
                    if len(batch) == BATCH:
                        return True
            return False
        finally:
            if batch:
                self._write(batch)

    def _said_of(self, leases: Sequence[int]) -> Mapping[int, RolloutAnswers]:
        return self._reader.ask(said_of, leases)

    def _write(self, batch: list[Record]) -> None:
        try:
            self._watcher.write(batch)
        except UsageError as refused:  # which is no trouble of the database
            raise LogFailed(str(refused)) from None
        self.written += len(batch)


class WatcherDisplay:
    """A display that lets a watcher follow the run. `population` and `run` name its rows, `view` is the run as of the
    fact `after`."""

    def __init__(
        self,
        name: str,
        watcher: Watcher,
        logged: LoggedRun,
        population: Path | str,
        run: str,
        view: RunView,
        after: int,
    ) -> None:
        self._name, self._watcher, self._logged = name, watcher, logged
        self._rows, self._begin = (population, run), (view, after)
        self._news = threading.Event()
        self._fresh = True
        self._closing = self._left = False
        self._thread = threading.Thread(target=self._work, name=f"watcher {name}", daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        return f"log {self._name}"

    def take(self, event: Event, view: RunView) -> None:
        """The facts are read from the rows, at the next refresh."""
        self._fresh = True

    async def refresh(self, view: RunView, now: float) -> None:
        if self._fresh:
            self._fresh = False
            self._news.set()

    async def close(self, view: RunView, now: float) -> None:
        self._closing = True
        self._news.set()
        await anyio.to_thread.run_sync(self._thread.join, LAST_S)
        self._left = self._thread.is_alive()
        if self._left:
            log.warning("the log %s did not finish within %g s and was left", self._name, LAST_S)

    def _work(self) -> None:
        try:
            with open_readonly(*self._rows) as reader:
                self._watcher.begin(self._logged, replay=False)
                writing = Writing(self._watcher, self._logged, reader, *self._begin)
                last = False
                while not last:
                    self._news.wait()
                    self._news.clear()
                    last = self._closing
                    try:
                        writing.go_on()
                    except UsageError:
                        if last:
                            raise
                        self._fresh = True  # the database is away: the next look reads it
                self._watcher.close()
        except Exception as error:
            if not self._left:
                reason = clean(str(error) if isinstance(error, LogFailed) else f"{type(error).__name__}: {error}", 200)
                log.warning("the log %s failed and gets nothing more, the run goes on: %s", self._name, reason)
