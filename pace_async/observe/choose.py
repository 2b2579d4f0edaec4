"""Chooses the display of a run."""

import os
from collections.abc import Callable, Mapping

from pace_async.observe.base import Display, Event
from pace_async.observe.model import RunView
from pace_async.observe.output import Output
from pace_async.observe.plain import PlainDisplay
from pace_async.registry.displays import DISPLAYS

DUMB = ("dumb", "unknown", "")

DisplayFactory = Callable[[Output, Mapping[str, str]], Display]
"""Makes a display from the run's output and the environment."""


class NoDisplay:
    """Shows nothing."""

    name = "none"

    def take(self, event: Event, view: RunView) -> None:
        """Nothing."""

    async def refresh(self, view: RunView, now: float) -> None:
        """Nothing."""

    async def close(self, view: RunView, now: float) -> None:
        """Nothing."""


def rich(output: Output, environment: Mapping[str, str]) -> Display:
    """A frame that is redrawn."""
    from pace_async.observe.rich_display import RichDisplay

    return RichDisplay(output, environment)


def plain(output: Output, environment: Mapping[str, str]) -> Display:
    """A line for each event that matters."""
    return PlainDisplay(output)


def no_display(output: Output, environment: Mapping[str, str]) -> Display:
    """Nothing."""
    return NoDisplay()


def choose(name: str, output: Output, environment: Mapping[str, str] | None = None) -> Display:
    """The display of this name. One that redraws is plain on an output that cannot be redrawn: a file must hold no
    control sequences."""
    env = os.environ if environment is None else environment
    entry = DISPLAYS.named(name)
    fixed = not output.terminal or env.get("TERM", "").lower() in DUMB
    factory = plain if entry.redraws and fixed else entry.load()
    return factory(output, env)
