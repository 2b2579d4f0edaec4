"""The runs that a server shows, opened for reading once, and answers kept until the next commit.

Invariant: an answer is made once for all browsers that ask for it between two commits, and making all of them takes at
most a fifth of the time, however often the run commits.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from pace_async.population.connect import Place
from pace_async.population.reading.journal import last_seq
from pace_async.population.reading.reader import Reader, open_readonly

KEPT = 64
"""Answers kept for each run."""
REST = 4.0
"""How long an answer stands while the run commits, as a multiple of the time that all answers took that are wanted
now."""
WANTED_S = 10.0
"""An answer is wanted for so long after somebody asked for it, or was to ask for it again."""
LOOKED_S = 0.1
"""A commit is seen after at most this many seconds."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Something made of the rows of `moment`. `again` is None if it is the newest, else the seconds after which a newer
    one can be had."""

    value: Any
    again: float | None
    moment: str = ""


@dataclass(slots=True)
class _Made:
    moment: str
    value: Any
    at: float
    took: float
    wanted_until: float = 0.0
    lock: Lock = field(default_factory=Lock)


class OpenRun:
    """One run. Its methods may be called from several threads."""

    def __init__(self, reader: Reader, clock: Callable[[], float] = time.monotonic) -> None:
        self.reader = reader
        self._clock = clock
        self._made: OrderedDict[Hashable, _Made] = OrderedDict()
        self._lock = Lock()
        self._looking = Lock()
        self._seen = (float("-inf"), "")

    def moment(self) -> str:
        """The number of the run's newest fact, at most LOOKED_S seconds old.

        One thread looks at a time: a slower one would otherwise write an older number over a newer one, and the page
        made of it would stand as the newest."""
        with self._looking:
            now = self._clock()
            at, moment = self._seen
            if now - at >= LOOKED_S:
                moment = str(self.reader.ask(last_seq))
                self._seen = (now, moment)
            return moment

    def answer(self, key: Hashable, make: Callable[[Reader], Any]) -> Answer:
        """`make(reader)`, all of one moment, or what it gave since the last commit. Raises what `make` raises."""
        return self._cached_answer(key, self.moment, lambda: self._at_one_moment(make))

    def _at_one_moment(self, make: Callable[[Reader], Any]) -> Any:
        with self.reader.at_one_moment() as reader:
            return make(reader)

    def drawn(self, key: Hashable, read: Callable[[Reader], Any], draw: Callable[[Any], Any]) -> Answer:
        """`draw(value)` of the answer that `read` gives. Pages that are drawn of the same answer share it."""
        rows = self.answer(read, read)
        drawing = self._cached_answer(key, lambda: rows.moment, lambda: draw(rows.value))
        return Answer(drawing.value, rows.again if drawing.again is None else drawing.again, drawing.moment)

    def _cached_answer(self, key: Hashable, newest: Callable[[], str], make: Callable[[], Any]) -> Answer:
        with self._lock:
            entry = self._made.pop(key, None) or _Made("", None, float("-inf"), 0.0)
            self._made[key], request_time = entry, self._clock()
            entry.wanted_until = request_time + WANTED_S
            took = sum(item.took for item in self._made.values() if request_time <= item.wanted_until)
            while len(self._made) > KEPT:
                self._made.popitem(last=False)
        with entry.lock:
            moment, now = newest(), self._clock()
            rest = entry.at + REST * took - now
            if entry.moment and (entry.moment == moment or rest > 0):
                entry.wanted_until += max(rest, 0.0)
                return Answer(entry.value, None if entry.moment == moment else rest, entry.moment)
            entry.value = make()
            ended = self._clock()
            entry.moment, entry.at, entry.took = moment, ended, ended - now
            return Answer(entry.value, None, moment)


@contextmanager
def open_all(places: Mapping[str, tuple[Place | str, str | None]]) -> Generator[dict[str, OpenRun]]:
    """The runs by the names that addresses have: `places` gives for each where its population is, and which run of it.
    Raises UsageError for one that cannot be read."""
    with ExitStack() as stack:
        yield {name: OpenRun(stack.enter_context(open_readonly(where, run))) for name, (where, run) in places.items()}
