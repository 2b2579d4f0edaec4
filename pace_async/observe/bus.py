"""The event bus: delivers the run's events to its watchers and never delays the run.

Invariant: `publish` neither waits nor raises. A slow watcher loses its oldest transient events (counted), never a fact.
A watcher that falls behind by more facts than its queue holds, or that raises, is dropped with one line in the log.
Belongs to one event loop: publish only from the loop's own thread. Not a record: a fact is committed before it is
published.

Events are folded into the view of the run when a watcher looks, in the watcher's task, so the publisher does not pay
for the screen. The order is that of publishing. At most UNFOLDED events wait.
"""

import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from pace_async.events import TransientEvent
from pace_async.observe.base import Display, Event
from pace_async.observe.fold import fold
from pace_async.observe.formatting import clean
from pace_async.observe.model import RunView

CAPACITY = 4096
BEAT_S = 0.5
IDLE_S = 1.0
CLOSE_S = 3.0
UNFOLDED = 256
"""Events that wait to be folded. To fold so many takes the event loop a few milliseconds."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Published:
    """An event and the view just after it, once the bus has folded it."""

    event: Event
    view: RunView


class Subscription:
    """One watcher's bounded queue of moments. `before` is the view before the first."""

    def __init__(self, name: str, before: RunView, capacity: int = CAPACITY) -> None:
        self.name = name
        self.before = before
        self.capacity = capacity
        self.transient_lost = 0
        self.closed = False
        self._queue: deque[Published] = deque()
        self._news = anyio.Event()
        self._closing = anyio.Event()

    def put(self, moment: Published) -> None:
        """Never waits. Closes the subscription if the queue is full of facts."""
        if self.closed:
            return
        if len(self._queue) >= self.capacity and not self._drop_transient():
            if isinstance(moment.event, TransientEvent):
                self.transient_lost += 1
                return
            log.warning("display %s fell %d facts behind and was dropped", self.name, self.capacity)
            self.close()
            return
        self._queue.append(moment)
        self._news.set()

    def take(self) -> list[Published]:
        """All queued moments, oldest first."""
        taken = list(self._queue)
        self._queue.clear()
        if not self.closed:
            self._news = anyio.Event()
        return taken

    async def wait(self) -> None:
        """Wait until an event is queued or the subscription is closed."""
        await self._news.wait()

    async def wait_closed(self) -> None:
        """Wait until the subscription is closed."""
        await self._closing.wait()

    def close(self) -> None:
        """Close the subscription. Queued events may still be taken."""
        self.closed = True
        self._news.set()
        self._closing.set()

    def _drop_transient(self) -> bool:
        for index, moment in enumerate(self._queue):
            if isinstance(moment.event, TransientEvent):
                del self._queue[index]
                self.transient_lost += 1
                return True
        return False


class Bus:
    """Hands each event to every watcher, and folds it into the view of the run when one looks. With `watched` False (a
    simulation, which is read from its rows) the view is never updated."""

    def __init__(self, view: RunView, *, watched: bool = True) -> None:
        self._view = view
        self._watched = watched
        self._unfolded: list[Published] = []
        self._subscriptions: list[Subscription] = []

    @property
    def view(self) -> RunView:
        """The run as of the last published event."""
        self.fold()
        return self._view

    def publish(self, event: Event) -> None:
        """Show a committed fact or a transient event. Never waits, never raises."""
        if not self._watched:
            return
        moment = Published(event, self._view)
        self._unfolded.append(moment)
        for subscription in self._subscriptions:
            subscription.put(moment)
        if len(self._unfolded) >= UNFOLDED:
            self.fold()

    def fold(self) -> None:
        """Bring the view, and that of every moment so far, up to date."""
        for moment in self._unfolded:
            try:
                self._view = fold(self._view, moment.event)
            except Exception:
                log.exception("an event could not be folded into the view: %s", type(moment.event).__name__)
            moment.view = self._view
        self._unfolded.clear()

    def subscribe(self, name: str, capacity: int = CAPACITY) -> Subscription:
        """A queue that gets every event from now on."""
        subscription = Subscription(name, self.view, capacity)
        self._subscriptions.append(subscription)
        return subscription


@asynccontextmanager
async def observing(
    bus: Bus, displays: Sequence[Display], clock: Callable[[], float] = time.time
) -> AsyncGenerator[None, None]:
    """Drive each display in its own task while the body runs. On exit each shows the last state and is closed, within
    twice CLOSE_S seconds. An exception of the body passes through unchanged. `clock` gives seconds since the epoch."""
    failure: Exception | None = None
    subscriptions = [bus.subscribe(display.name) for display in displays]
    async with anyio.create_task_group() as tasks:
        for subscription, display in zip(subscriptions, displays, strict=True):
            tasks.start_soon(_drive, bus, subscription, display, clock, name=f"display {display.name}")
        try:
            yield
        except Exception as error:
            failure = error
        finally:
            for subscription in subscriptions:
                subscription.close()
            tasks.cancel_scope.deadline = anyio.current_time() + CLOSE_S
    if failure is not None:
        raise failure


async def _drive(bus: Bus, subscription: Subscription, display: Display, clock: Callable[[], float]) -> None:
    failed = False
    try:
        await _show(bus, subscription, display, clock)
    except Exception as error:
        failed = True
        _report(subscription, error)
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True) as patience:
            try:
                if not failed:
                    _hand_over(bus, subscription, display)
                await display.close(bus.view, clock())
            except Exception as error:
                if not failed:
                    _report(subscription, error)
        if patience.cancelled_caught:
            log.warning("display %s did not close within %g s and was left", subscription.name, CLOSE_S)


async def _show(bus: Bus, subscription: Subscription, display: Display, clock: Callable[[], float]) -> None:
    await display.refresh(subscription.before, clock())
    while not subscription.closed:
        with anyio.move_on_after(IDLE_S):
            await subscription.wait()
        _hand_over(bus, subscription, display)
        await display.refresh(bus.view, clock())
        with anyio.move_on_after(BEAT_S):
            await subscription.wait_closed()


def _hand_over(bus: Bus, subscription: Subscription, display: Display) -> None:
    bus.fold()
    for moment in subscription.take():
        display.take(moment.event, moment.view)


def _report(subscription: Subscription, error: Exception) -> None:
    subscription.close()
    reason = clean(f"{type(error).__name__}: {error}", 200)
    log.warning("display %s failed and was dropped, the run goes on: %s", subscription.name, reason)
