"""Which display a run gets."""

import os
from collections.abc import Mapping

from pace_async.observe.base import Display, DisplayKind, Event
from pace_async.observe.model import RunView
from pace_async.observe.output import Output
from pace_async.observe.plain import PlainDisplay

DUMB = ("dumb", "unknown", "")


class NoDisplay:
    """Shows nothing."""

    name = "none"

    def take(self, event: Event, view: RunView) -> None:
        """Nothing."""

    async def refresh(self, view: RunView, now: float) -> None:
        """Nothing."""

    async def close(self, view: RunView, now: float) -> None:
        """Nothing."""


def choose(kind: DisplayKind, output: Output, environment: Mapping[str, str] | None = None) -> Display:
    """`auto` is rich on a terminal that can be redrawn, else plain. rich on anything else is plain too: control
    sequences do not belong in a file."""
    env = os.environ if environment is None else environment
    if kind == "none":
        return NoDisplay()
    if kind == "plain" or not output.terminal or env.get("TERM", "").lower() in DUMB:
        return PlainDisplay(output)
    from pace_async.observe.rich_display import RichDisplay

    return RichDisplay(output, env)
