"""Runs a watcher beside a run.

Invariant: the run never waits for a watcher. Records go into a bounded buffer, and a daemon thread writes them. A
watcher that fails is reported once and gets no more records. One that is slow loses records. The lost records are
counted, and the count is reported at the end.
"""

import logging
import threading
from collections import deque
from collections.abc import Mapping

import anyio

from pace_async.observe.base import Event
from pace_async.observe.formatting import clean, count
from pace_async.observe.model import RunView
from pace_async.observe.watchers.base import LogFailed, LoggedRun, Record, Watcher
from pace_async.observe.watchers.records import record_of
from pace_async.observe.watchers.texts import OpenTexts
from pace_async.population.reading.said import Said

CAPACITY = 4096
LAST_S = 2.0
"""Seconds that a watcher has for its last records when the run has ended."""

log = logging.getLogger(__name__)


class WatcherDisplay:
    """A display that hands records to a watcher. `said` is what an earlier process of the run heard for the leases that
    are still open."""

    def __init__(
        self,
        name: str,
        watcher: Watcher,
        logged: LoggedRun,
        capacity: int = CAPACITY,
        said: Mapping[int, Said] | None = None,
    ) -> None:
        self._name, self._watcher, self._logged, self._capacity = name, watcher, logged, capacity
        self._texts = OpenTexts(said)
        self._records: deque[Record] = deque()
        self._news = threading.Condition()
        self._closing = self._failed = self._slow = False
        self.dropped = 0
        self._thread = threading.Thread(target=self._work, name=f"watcher {name}", daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        return f"log {self._name}"

    def take(self, event: Event, view: RunView) -> None:
        self._texts.take(event)
        record = record_of(event, view, self._logged.began, self._texts.shipped)
        if record is None:
            return
        with self._news:
            full = len(self._records) >= self._capacity
            first = full and not self._slow and not self._failed
            self._slow |= full
            if self._failed or full:
                self.dropped += 1
            else:
                self._records.append(record)
                self._news.notify()
        if first:
            log.warning("the log %s is too slow and loses records, the run goes on", self._name)

    async def refresh(self, view: RunView, now: float) -> None:
        """Nothing: the thread writes by itself."""

    async def close(self, view: RunView, now: float) -> None:
        with self._news:
            self._closing = True
            self._news.notify()
        await anyio.to_thread.run_sync(self._thread.join, LAST_S)
        with self._news:
            left = len(self._records)
            self._records.clear()
            self._failed = True
        if self._thread.is_alive():
            log.warning("the log %s did not finish within %g s and was left", self._name, LAST_S)
        if self.dropped + left:
            log.warning("the log %s lost %s", self._name, count(self.dropped + left, "record"))

    def _work(self) -> None:
        batch: list[Record] = []
        try:
            self._watcher.begin(self._logged, replay=False)
            while batch := self._next():
                self._watcher.write(batch)
            self._watcher.close()
        except Exception as error:
            later = isinstance(error, LogFailed)
            with self._news:
                told = self._failed
                self._failed = True
                self.dropped += (error.lost if later else len(batch)) + len(self._records)
                self._records.clear()
            if not told:
                reason = clean(str(error) if later else f"{type(error).__name__}: {error}", 200)
                log.warning("the log %s failed and gets nothing more, the run goes on: %s", self._name, reason)

    def _next(self) -> list[Record]:
        """All waiting records, none at the end. Waits for some."""
        with self._news:
            while not self._records and not self._closing:
                self._news.wait()
            batch = list(self._records)
            self._records.clear()
            return batch
