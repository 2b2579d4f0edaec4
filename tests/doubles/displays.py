"""Displays for tests: one that records everything, one that fails, one that never comes back."""

import anyio

from pace_async.observe.base import Event
from pace_async.observe.model import RunView


class Recorder:
    """Records everything. `heard` is set at its first event."""

    name = "recorder"

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.views: list[RunView] = []
        self.closed = 0
        self.heard = anyio.Event()

    def take(self, event: Event, view: RunView) -> None:
        self.events.append(event)
        self.views.append(view)
        self.heard.set()

    async def refresh(self, view: RunView, now: float) -> None: ...

    async def close(self, view: RunView, now: float) -> None:
        self.closed += 1


class Broken(Recorder):
    """Fails at the stage named."""

    name = "broken"

    def __init__(self, stage: str) -> None:
        super().__init__()
        self.stage = stage

    def take(self, event: Event, view: RunView) -> None:
        super().take(event, view)
        if self.stage == "take":
            raise ZeroDivisionError("cannot take \x1b[31mthis")

    async def refresh(self, view: RunView, now: float) -> None:
        if self.stage == "refresh":
            raise OSError("no space left")

    async def close(self, view: RunView, now: float) -> None:
        await super().close(view, now)
        if self.stage == "close":
            raise BrokenPipeError("gone")


class Stuck(Recorder):
    """Never comes back from a refresh or from closing."""

    name = "stuck"

    async def refresh(self, view: RunView, now: float) -> None:
        await anyio.sleep_forever()

    async def close(self, view: RunView, now: float) -> None:
        await anyio.sleep_forever()
