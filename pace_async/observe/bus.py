"""The event bus: shows the run's events to its displays and never delays the run.

Invariant: `publish` neither waits nor raises. A display that raises is dropped with one line in the log.
Belongs to one event loop: publish only from the loop's own thread. Not a record: a fact is committed before it is
published.

Events are folded into the view of the run, and given to the displays, when a display looks, in its task, so the
publisher does not pay for the screen. The order is that of publishing. At most UNFOLDED events wait.
"""

import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import anyio

from pace_async.observe.base import Display, Event
from pace_async.observe.fold import fold
from pace_async.observe.formatting import clean
from pace_async.observe.model import RunView

CAPACITY = 4096
"""Events that wait for a display's first frame, at most."""
BEAT_S = 0.5
IDLE_S = 1.0
CLOSE_S = 3.0
UNFOLDED = 256
"""Events that wait to be folded. To fold so many takes the event loop a few milliseconds."""

log = logging.getLogger(__name__)


class _Watching:
    """A display, with the events that wait for its first frame. `before` is the view before the first of them."""

    def __init__(self, display: Display, before: RunView) -> None:
        self.display, self.before = display, before
        self.news = anyio.Event()
        self.dropped = False
        self._waiting: list[tuple[Event, RunView]] | None = []

    def take(self, event: Event, view: RunView) -> None:
        """Never waits, never raises."""
        if self.dropped:
            return
        if self._waiting is None:
            try:
                self.display.take(event, view)
            except Exception as error:
                self.drop(f"{type(error).__name__}: {error}")
        elif len(self._waiting) < CAPACITY:
            self._waiting.append((event, view))
        else:
            self.drop(f"no first frame after {CAPACITY} events")

    def begin(self) -> None:
        """The first frame is there, or there will be none."""
        waiting, self._waiting = self._waiting or [], None
        for event, view in waiting:
            self.take(event, view)

    def drop(self, reason: str) -> None:
        """Give it nothing more, and say so once."""
        if not self.dropped:
            message = "display %s failed and was dropped, the run goes on: %s"
            log.warning(message, self.display.name, clean(reason, 200))
        self.dropped = True


class Bus:
    """Hands each event to every display, and folds it into the view of the run when one looks. With `watched` False (a
    simulation, which is read from its rows) the view is never updated."""

    def __init__(self, view: RunView, *, watched: bool = True) -> None:
        self._view = view
        self._watched = watched
        self._unfolded: list[Event] = []
        self._watching: list[_Watching] = []

    @property
    def view(self) -> RunView:
        """The run as of the last published event."""
        self.fold()
        return self._view

    def fold(self) -> None:
        """Take the published events into the view, and hand them to the displays."""
        unfolded, self._unfolded = self._unfolded, []
        for event in unfolded:
            try:
                self._view = fold(self._view, event)
            except Exception:
                log.exception("an event could not be folded into the view: %s", type(event).__name__)
            for watching in self._watching:
                watching.take(event, self._view)

    def publish(self, event: Event) -> None:
        """Show a committed fact or a transient event. Never waits, never raises."""
        if not self._watched:
            return
        self._unfolded.append(event)
        self.wake()
        if len(self._unfolded) >= UNFOLDED:
            self.fold()

    def wake(self) -> None:
        """Let every display look."""
        for watching in self._watching:
            watching.news.set()

    def watch(self, display: Display) -> _Watching:
        """Give the display every event from now on."""
        self._watching.append(_Watching(display, self.view))
        return self._watching[-1]


@asynccontextmanager
async def observing(
    bus: Bus, displays: Sequence[Display], clock: Callable[[], float] = time.time
) -> AsyncGenerator[None, None]:
    """Drive each display in its own task while the body runs. On exit each shows the last state and is closed, within
    twice CLOSE_S seconds. An exception of the body passes through unchanged. `clock` gives seconds since the epoch."""
    failure: Exception | None = None
    closing = anyio.Event()
    watched = [bus.watch(display) for display in displays]
    async with anyio.create_task_group() as tasks:
        for watching in watched:
            tasks.start_soon(_drive, bus, watching, closing, clock, name=f"display {watching.display.name}")
        try:
            yield
        except Exception as error:
            failure = error
        finally:
            closing.set()
            bus.wake()
            tasks.cancel_scope.deadline = anyio.current_time() + CLOSE_S
    if failure is not None:
        raise failure


async def _drive(bus: Bus, watching: _Watching, closing: anyio.Event, clock: Callable[[], float]) -> None:
    display = watching.display
    try:
        await display.refresh(watching.before, clock())
        watching.begin()
        while not closing.is_set() and not watching.dropped:
            with anyio.move_on_after(IDLE_S):
                await watching.news.wait()
            watching.news = anyio.Event()
            view = bus.view
            if not watching.dropped:
                await display.refresh(view, clock())
            with anyio.move_on_after(BEAT_S):
                await closing.wait()
    except Exception as error:
        watching.drop(f"{type(error).__name__}: {error}")
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True) as patience:
            watching.begin()
            try:
                await display.close(bus.view, clock())
            except Exception as error:
                watching.drop(f"{type(error).__name__}: {error}")
        watching.dropped = True
        if patience.cancelled_caught:
            log.warning("display %s did not close within %g s and was left", display.name, CLOSE_S)
