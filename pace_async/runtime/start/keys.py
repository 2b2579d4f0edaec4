"""Keys on the live screen of a run: pause and go on, and which panel is shown.

Invariant: the run is the same without them. If keys cannot be read, this is reported once, no more keys are read, and a
run that they paused goes on.
"""

import logging
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

from pace_async.observe.base import Display
from pace_async.observe.formatting import clean
from pace_async.observe.keyboard import Keyboard
from pace_async.runtime.run.core import Core

if TYPE_CHECKING:
    from pace_async.observe.panels import Panels

Keys = Callable[[Core], Coroutine[None, None, None]]
log = logging.getLogger(__name__)


def keys_on(display: Display) -> Keys | None:
    """The task that obeys the keys beside a run, or None if this display has no panels, or there is no terminal to type
    on."""
    panels: Panels | None = getattr(display, "panels", None)
    if panels is None or (keyboard := Keyboard.of()) is None:
        return None

    async def obey(core: Core) -> None:
        panels.keys = panels.pauses = True
        panels.program = lambda candidate: _best_program(core, candidate)
        try:
            with keyboard:
                async for key in keyboard.keys():
                    if key in ("p", " "):
                        core.hold(not core.held)
                    else:
                        panels.press(key)
                    await display.refresh(core.bus.view, time.time())
        except Exception as error:
            log.warning("keys are not read any more: %s", clean(f"{type(error).__name__}: {error}", 200))
        panels.keys = panels.pauses = False
        core.hold(False)

    return obey


def _best_program(core: Core, candidate: int) -> str | None:
    best = core.state.best
    return best.program if best is not None and best.candidate == candidate else None
