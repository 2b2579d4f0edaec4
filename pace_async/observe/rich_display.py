"""A run on a terminal: one frame of constant height, redrawn in place.

Invariant: at most one frame is unwritten at a time. While the terminal does not accept it (Ctrl-S, a stuck session), no
other is drawn. The last frame stays on the screen. Other prints of the process appear above the frame.
"""

from collections.abc import Mapping

from rich.console import Console, ConsoleDimensions, Group
from rich.control import Control
from rich.live import Live

from pace_async.observe.base import Event
from pace_async.observe.layout import FOOTER
from pace_async.observe.model import RunView
from pace_async.observe.output import Output
from pace_async.observe.panels import Panels

DRAIN_S, FRAME_S = 2.0, 0.2
HOLD, SHOW = "\x1b[?2026h", "\x1b[?2026l"


class RichDisplay:
    """Draws on `output`, which must be a terminal. `environment` is read for NO_COLOR, TERM and COLORTERM. `footer` is
    the last line while the run goes on. Keys choose which of its `panels` is drawn."""

    name = "rich"
    panels: Panels

    def __init__(self, output: Output, environment: Mapping[str, str] | None = None, footer: str = FOOTER) -> None:
        self.panels = Panels()
        self._footer = footer
        self._output = output
        self._size = output.size()
        self._console = Console(file=output.as_file(), force_terminal=True, highlight=False, _environ=environment)
        self._live: Live | None = None

    def take(self, event: Event, view: RunView) -> None:
        """Do nothing: a frame shows the view at the time of drawing."""

    async def refresh(self, view: RunView, now: float) -> None:
        self._output.flush()
        if not self._output.pending and not self._output.gone:
            self._draw(view, now)
            await self._output.drain(FRAME_S)

    async def close(self, view: RunView, now: float) -> None:
        try:
            if await self._output.drain(DRAIN_S):
                self._draw(view, now)
        finally:
            if self._live is not None:
                self._live.stop()
            await self._output.drain(DRAIN_S)

    def _draw(self, view: RunView, now: float) -> None:
        """HOLD and SHOW make the terminal show the frame at once. Terminals that do not know them ignore them."""
        size = self._output.size()
        lines = self.panels.frame(view, now, *size, self._footer)
        content = Group(*lines)
        self._console.size = ConsoleDimensions(*size)
        self._output.write(HOLD)
        if self._live is None:
            self._live = Live(content, console=self._console, auto_refresh=False, vertical_overflow="crop")
            self._live.start(refresh=True)
        else:
            if size != self._size:
                self._console.control(Control.clear(), Control.home())
            self._live.update(content, refresh=True)
        self._output.write(SHOW)
        self._size = size
