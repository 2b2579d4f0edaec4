"""Measures the turns of the event loop, because long turns make a run slow to answer.

A turn is the loop's work from one poll of its files and timers to the next. No other task of the run proceeds
meanwhile. It is measured where asyncio polls, by our own selector, which costs four readings of clocks a turn. Not a
profile: it gives the duration of the longest turn, not its work.
"""

import asyncio
import selectors
import time
from collections.abc import Callable


class LoopTurns(selectors.DefaultSelector):
    """The selector of one event loop. Times are in seconds. `wall` and `cpu` are clocks, the latter of the calling
    thread."""

    def __init__(
        self, wall: Callable[[], float] = time.perf_counter, cpu: Callable[[], float] = time.thread_time
    ) -> None:
        super().__init__()
        self._wall, self._cpu = wall, cpu
        self._since: tuple[float, float] | None = None
        self.longest_wall = self.longest_cpu = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As in the base class, between two turns."""
        if self._since is not None:
            wall, cpu = self._since
            self.longest_wall = max(self.longest_wall, self._wall() - wall)
            self.longest_cpu = max(self.longest_cpu, self._cpu() - cpu)
        ready = super().select(timeout)
        self._since = self._wall(), self._cpu()
        return ready

    def forget(self) -> None:
        """Restart the measurement with the next turn."""
        self._since, self.longest_wall, self.longest_cpu = None, 0.0, 0.0


class TimedLoop(asyncio.SelectorEventLoop):
    """An event loop that measures its turns."""

    def __init__(self) -> None:
        self.turns = LoopTurns()
        super().__init__(self.turns)


def turns_here() -> LoopTurns | None:
    """The turns of the running loop, if it is timed."""
    loop = asyncio.get_running_loop()
    return loop.turns if isinstance(loop, TimedLoop) else None
