"""Displays of a run (`--display`).

The code of a display makes one from the run's output and the environment: `observe.choose.DisplayFactory`.
"""

from dataclasses import dataclass

from pace_async.registry.base import Entry, Registry


@dataclass(frozen=True, slots=True)
class RunDisplay(Entry):
    """`redraws`: it needs a terminal that can be redrawn, and the display `plain` replaces it on anything else.
    `announces`: the run prints its beginning and its summary, outside the display."""

    redraws: bool = False
    announces: bool = True


DISPLAYS = Registry(
    "display",
    RunDisplay(
        "auto", "rich on a terminal that can be redrawn, else plain", "pace_async.observe.choose:rich", redraws=True
    ),
    RunDisplay("rich", "a frame that is redrawn, plain elsewhere", "pace_async.observe.choose:rich", redraws=True),
    RunDisplay("plain", "a line for each event that matters", "pace_async.observe.choose:plain"),
    RunDisplay("none", "nothing", "pace_async.observe.choose:no_display", announces=False),
)
