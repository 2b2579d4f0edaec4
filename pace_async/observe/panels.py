"""Panels of the live screen that keys choose: the overview, the last events, the best program, and help.

Invariant: a panel has as many lines as the overview at the same size, none wider than the terminal. Text of a candidate
is cleaned. No key is ever needed: without one, the overview is shown.
"""

from collections.abc import Callable
from typing import Literal

from rich.text import Text

from pace_async.observe import sections
from pace_async.observe.formatting import clean, score
from pace_async.observe.keyboard import DOWN, ESCAPE, PAGE_DOWN, PAGE_UP, UP
from pace_async.observe.layout import WIDEST, frame
from pace_async.observe.lines import QUIET, STRONG, Section, fit
from pace_async.observe.model import NOTES_KEPT, RunView

Panel = Literal["overview", "events", "best", "help"]
ORDER: tuple[Panel, ...] = ("overview", "events", "best")
HINT = " · ?: keys"
PAGE = 10
PAUSE = ("p, space", "pause: no new candidates, or go on; what is in flight is finished")
HELP = (
    ("n, tab", "next panel: overview, events, best program"),
    ("b", "the best program, and back"),
    ("up, down", "move in the best program"),
    ("?", "this help, and back"),
    ("escape, q", "the overview"),
    ("Ctrl-C", "as without keys: see the last line"),
)


class Panels:
    """The panel that is shown. `program` gives the text of a candidate's program, None if it cannot be read. `pauses`:
    the screen is the run's own, so a key can pause it."""

    def __init__(self) -> None:
        self.keys = False
        self.pauses = False
        self.program: Callable[[int], str | None] = lambda candidate: None
        self.shown: Panel = "overview"
        self._first = 0
        self._read: tuple[int, list[str]] | None = None

    def press(self, key: str) -> None:
        """Change the panel. Other keys do nothing."""
        if key in ("n", "\t"):
            place = ORDER.index(self.shown) if self.shown in ORDER else 0
            self.shown, self._first = ORDER[(place + 1) % len(ORDER)], 0
        elif key == "b":
            self.shown, self._first = "overview" if self.shown == "best" else "best", 0
        elif key in ("?", "h"):
            self.shown = "overview" if self.shown == "help" else "help"
        elif key in (ESCAPE, "q"):
            self.shown = "overview"
        else:
            step = {UP: -1, "k": -1, DOWN: 1, "j": 1, PAGE_UP: -PAGE, PAGE_DOWN: PAGE}.get(key, 0)
            self._first = max(0, self._first + step)

    def frame(self, view: RunView, now: float, columns: int, rows: int, footer: str) -> list[Text]:
        """The screen, top line first. A run that has ended shows the overview."""
        hint = footer + HINT if self.keys else footer
        whole = frame(view, now, columns, rows, hint)
        if self.shown == "overview" or view.ended_at is not None:
            return whole
        width, height = max(1, min(columns, WIDEST) - 2), len(whole)
        body = self._body(view, width, max(0, height - 3))
        lines = [sections.title(view, now, width), Text(""), *body]
        lines = [*lines, *[Text("")] * (height - 1 - len(lines)), Text(hint, style=QUIET)][:height]
        lines = [Text.assemble(" ", fit(line, width)) if columns > width else fit(line, columns - 1) for line in lines]
        lines[-1].rstrip()
        lines[-1].truncate(max(1, columns - len("^C^C")), overflow="ellipsis")
        return lines

    def _body(self, view: RunView, width: int, height: int) -> list[Text]:
        if self.shown == "help":
            keys = [PAUSE, *HELP] if self.pauses else HELP
            lines = [Text.assemble((f"{key:<10}", STRONG), " ", action) for key, action in keys]
            return Section("keys", lines).draw(width)[:height]
        if self.shown == "events":
            return sections.events(view, max(1, min(NOTES_KEPT, height - 1)), width).draw(width)[:height]
        return self._best(view, width, height)

    def _best(self, view: RunView, width: int, height: int) -> list[Text]:
        if view.best is None:
            return Section("best program", [Text("none yet", style=QUIET)]).draw(width)[:height]
        text = self._text_of(view.best.candidate)
        self._first = min(self._first, max(0, len(text) - (height - 1)))
        window = text[self._first : self._first + max(0, height - 1)]
        lines = [
            Text.assemble((f"{number:>4} ", QUIET), line) for number, line in enumerate(window, start=self._first + 1)
        ]
        aside = (f"candidate {view.best.candidate}", f"score {score(view.best.score)}", f"{len(text)} lines")
        return Section("best program", lines, aside).draw(width)[:height]

    def _text_of(self, candidate: int) -> list[str]:
        """The lines of a program, read once."""
        if self._read is None or self._read[0] != candidate:
            program = self.program(candidate)
            lines = ["its text cannot be read now"] if program is None else program.expandtabs(4).split("\n")
            self._read = candidate, [_safe_line(line) for line in lines]
        return self._read[1]


def _safe_line(line: str) -> str:
    """A line made safe to show, with its indentation."""
    code = line.lstrip(" ")
    return " " * min(len(line) - len(code), 200) + " ".join(clean(part, 500) for part in code[:2000].split(" "))
