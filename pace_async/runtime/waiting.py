"""Tasks of one event loop that wait for its state, each woken when it can go on and not before.

Invariant: whoever changes the state says so afterwards, and every task whose condition holds
then is woken; each looks again before it goes on, because another may have been faster. Of the islands that wait to be
admitted only the first in line can go on, so a change costs the same for a thousand of them as for one.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable

import anyio

from pace_async.runtime.state import Turn


class Waiting:
    """Tasks that wait for a condition each."""

    def __init__(self) -> None:
        self._waiting: dict[anyio.Event, Callable[[], bool]] = {}

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once `condition()` holds; it is looked at after every change."""
        while not condition():
            event = anyio.Event()
            self._waiting[event] = condition
            try:
                await event.wait()
            finally:
                del self._waiting[event]

    def changed(self) -> None:
        """Wake those whose condition holds."""
        for event, condition in self._waiting.items():
            if condition():
                event.set()


class Line:
    """Islands in the order in which they are admitted, whether or not their threads wait already."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self._turns = sorted(turns)
        self._waiting: dict[Turn, anyio.Event] = {}

    def enter(self, turn: Turn) -> None:
        """Take a place in the line, once."""
        place = bisect_left(self._turns, turn)
        if place == len(self._turns) or self._turns[place] != turn:
            self._turns.insert(place, turn)

    def is_first(self, turn: Turn) -> bool:
        """Whether nobody comes before."""
        return self._turns[0] == turn

    async def wait(self, turn: Turn) -> None:
        """Return when it may be worth looking again."""
        event = self._waiting[turn] = anyio.Event()
        try:
            await event.wait()
        finally:
            del self._waiting[turn]

    def leave(self, turn: Turn) -> None:
        """Give the place up."""
        del self._turns[bisect_left(self._turns, turn)]

    def wake_first(self) -> None:
        """Let the first look again, if its thread waits."""
        if self._turns and (event := self._waiting.get(self._turns[0])) is not None:
            event.set()

    def wake_all(self) -> None:
        """Let every one look again."""
        for event in self._waiting.values():
            event.set()
