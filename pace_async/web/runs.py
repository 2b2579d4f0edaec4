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
        return self._kept(key, self.moment, lambda: self._at_one_moment(make))

    def _at_one_moment(self, make: Callable[[Reader], Any]) -> Any:
        with self.reader.at_one_moment() as reader:
            return make(reader)

    def drawn(self, key: Hashable, read: Callable[[Reader], Any], draw: Callable[[Any], Any]) -> Answer:
        """`draw(value)` of the answer that `read` gives. Pages that are drawn of the same answer share it."""
        rows = self.answer(read, read)
        made = self._kept(key, lambda: rows.moment, lambda: draw(rows.value))
        return Answer(made.value, rows.again if made.again is None else made.again, made.moment)

    def _kept(self, key: Hashable, newest: Callable[[], str], make: Callable[[], Any]) -> Answer:
        with self._lock:
            made = self._made.pop(key, None) or _Made("", None, float("-inf"), 0.0)
            self._made[key], asked = made, self._clock()
            made.wanted_until = asked + WANTED_S
            took = sum(one.took for one in self._made.values() if asked <= one.wanted_until)
            while len(self._made) > KEPT:
                self._made.popitem(last=False)
        with made.lock:
            moment, now = newest(), self._clock()
            rest = made.at + REST * took - now
            if made.moment and (made.moment == moment or rest > 0):
                made.wanted_until += max(rest, 0.0)
                return Answer(made.value, None if made.moment == moment else rest, made.moment)
            made.value = make()
            ended = self._clock()
            made.moment, made.at, made.took = moment, ended, ended - now
            return Answer(made.value, None, moment)


@contextmanager
def opened(places: Mapping[str, tuple[Place | str, str | None]]) -> Generator[dict[str, OpenRun]]:
    """The runs by the names that addresses have: `places` gives for each where its population is, and which run of it.
    Raises UsageError for one that cannot be read."""
    with ExitStack() as stack:
        yield {name: OpenRun(stack.enter_context(open_readonly(where, run))) for name, (where, run) in places.items()}
