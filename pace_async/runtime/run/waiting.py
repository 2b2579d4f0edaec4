"""How the tasks of a run wait: each for its own condition, and the islands in line for their next lease.

Invariant of `Waiters`: every change of the state is followed by a notification, and every task whose condition then
holds is woken. Each tests its condition again before it goes on, because another task may have been faster. Only the
first of the islands that wait for admission can go on, so a change costs the same for a thousand of them as for one.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable

import anyio

from pace_async.state.run_state import Turn


class Waiters:
    """Tasks that wait, each for its own condition."""

    def __init__(self) -> None:
        self._waiting: dict[anyio.Event, Callable[[], bool]] = {}

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once `condition()` holds. It is tested after every change."""
        while not condition():
            event = anyio.Event()
            self._waiting[event] = condition
            try:
                await event.wait()
            finally:
                del self._waiting[event]

    def changed(self) -> None:
        """Wake the tasks whose condition holds."""
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
        """Whether the island is first in line."""
        return self._turns[0] == turn

    async def wait(self, turn: Turn) -> None:
        """Return when the condition may hold and should be tested again."""
        event = self._waiting[turn] = anyio.Event()
        try:
            await event.wait()
        finally:
            del self._waiting[turn]

    def leave(self, turn: Turn) -> None:
        """Give the place up."""
        del self._turns[bisect_left(self._turns, turn)]

    def wake_first(self) -> None:
        """Wake the first, if its thread waits."""
        if self._turns and (event := self._waiting.get(self._turns[0])) is not None:
            event.set()

    def wake_all(self) -> None:
        """Wake all."""
        for event in self._waiting.values():
            event.set()
