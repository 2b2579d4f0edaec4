"""The seam between a run and whoever watches it."""

from typing import Literal, Protocol

from pace_async.events import Fact, Sight
from pace_async.observe.model import RunView

Event = Fact | Sight
DisplayKind = Literal["auto", "rich", "plain", "none"]


class Display(Protocol):
    """Shows a run. Whatever it raises ends the display, never the run."""

    @property
    def name(self) -> str:
        """What to call it in the log."""
        ...

    def take(self, event: Event, view: RunView) -> None:
        """One event, in the order of publication, with the view just after it. Must not wait."""
        ...

    async def refresh(self, view: RunView, now: float) -> None:
        """Show what was taken. `now` in seconds since the epoch. Called at most every `bus.BEAT_S` seconds, and at
        least every `bus.IDLE_S` seconds while nothing happens."""
        ...

    async def close(self, view: RunView, now: float) -> None:
        """Show the last state and let go of the terminal or file. Called once, also when the run ends in an error."""
        ...
