"""Displays of a run (`--display`).

The code of a display makes one from the run's output and the environment.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pace_async.registry.base import Entry, Registry, later

if TYPE_CHECKING:
    from pace_async.observe import choose
    from pace_async.observe.choose import DisplayFactory
else:
    (choose,) = later("pace_async.observe", "choose")


@dataclass(frozen=True, slots=True)
class RunDisplay(Entry["DisplayFactory"]):
    """`redraws`: it needs a terminal that can be redrawn, and the display `plain` replaces it on anything else.
    `announces`: the run prints its beginning and its summary, outside the display."""

    redraws: bool = False
    announces: bool = True


DISPLAYS = Registry(
    "display",
    RunDisplay("auto", "rich on a terminal that can be redrawn, else plain", lambda: choose.rich, redraws=True),
    RunDisplay("rich", "a frame that is redrawn, plain elsewhere", lambda: choose.rich, redraws=True),
    RunDisplay("plain", "a line for each event that matters", lambda: choose.plain),
    RunDisplay("none", "nothing", lambda: choose.no_display, announces=False),
)
