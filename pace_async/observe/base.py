"""The seam between a run and its displays."""

from typing import Protocol

from pace_async.events import Fact, TransientEvent
from pace_async.observe.model import RunView

Event = Fact | TransientEvent


class Display(Protocol):
    """Shows a run. An exception ends the display, never the run."""

    @property
    def name(self) -> str:
        """The display's name in the log."""
        ...

    def take(self, event: Event, view: RunView) -> None:
        """Receive one event, in the order of publication, with the view just after it. Must not wait."""
        ...

    async def refresh(self, view: RunView, now: float) -> None:
        """Show the events received so far. `now` in seconds since the epoch. Called at most every `bus.BEAT_S` seconds,
        and at least every `bus.IDLE_S` seconds while nothing happens."""
        ...

    async def close(self, view: RunView, now: float) -> None:
        """Show the last state and release the terminal or file. Called once, also when the run ends in an error."""
        ...
