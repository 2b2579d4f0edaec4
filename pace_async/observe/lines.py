"""Building blocks of a frame: lines of an exact width.

Pure. Callers clean text from outside first. It is put into rich's `Text`, which reads no markup.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from rich.cells import cell_len
from rich.text import Text

from pace_async.observe.chart import area, stripe

QUIET = "dim"
STRONG = "bold"
ACCENT = "cyan"
GOOD = "green"
WARN = "yellow"
BETWEEN = "▒"
"""A cell between two values of a chart."""
GUTTER = 3
LABEL = 10


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of the screen. As many parts of `aside` as fit stand at the right end of the title's rule."""

    title: str
    lines: Sequence[Text] = field(default_factory=list[Text])
    aside: Sequence[str] = ()

    def draw(self, width: int) -> list[Text]:
        """The title line and the lines, each `width` cells wide."""
        title = Text.assemble((self.title, STRONG), " ")
        count = len(self.aside)
        while count and title.cell_len + cell_len(" · ".join(self.aside[:count])) + 3 > width:
            count -= 1
        aside = Text(" " + " · ".join(self.aside[:count]) if count else "", style=QUIET)
        rule = Text("─" * max(0, width - title.cell_len - aside.cell_len), style=QUIET)
        return [fit(line, width) for line in (Text.assemble(title, rule, aside), *self.lines)]


def fit(line: Text, width: int) -> Text:
    """A copy of `line` cut or padded to `width` cells."""
    if width <= 0:
        return Text("")
    fitted = line.copy()
    fitted.truncate(width, overflow="ellipsis", pad=True)
    return fitted


def elided(text: str, width: int) -> str:
    """The text, or its beginning and its end in `width` cells, because a note starts with its subject and ends with its
    value."""
    if cell_len(text) <= width or width < 24:
        return text
    last = text[-max(8, width // 5) :].partition(" ")[2]
    first = text
    while first and cell_len(first) + cell_len(last) + 3 > width:
        first = first[:-1]
    return f"{first.rstrip()} … {last}"


def spread(left: Text, right: Text, width: int) -> Text:
    """`left` and `right` at the two ends of a line. If there is too little room, `left` is cut."""
    room = width - right.cell_len - 1
    return fit(Text.assemble(fit(left, room), " ", right), width) if room > 0 else fit(right, width)


def labelled(label: str, value: Text) -> Text:
    """A dim label, then its value."""
    return Text.assemble((label.ljust(LABEL), QUIET), value)


def join_parts(parts: Sequence[Text | str]) -> Text:
    """The non-empty parts with dim dots between them."""
    line = Text()
    for part in parts:
        text = part if isinstance(part, Text) else Text(part)
        if text.cell_len:
            line.append(" · " if line.cell_len else "", style=QUIET)
            line.append_text(text)
    return line


def figure(value: object, unit: str, style: str = "") -> Text:
    """A value and its dim unit."""
    return Text.assemble((str(value), style), (f" {unit}", QUIET))


def beside(left: Sequence[Text], right: Sequence[Text], left_width: int, right_width: int) -> list[Text]:
    """Two columns of lines. The shorter one is padded with blank lines."""
    height = max(len(left), len(right))
    blank = Text("")
    return [
        Text.assemble(
            fit(left[row] if row < len(left) else blank, left_width),
            " " * GUTTER,
            fit(right[row] if row < len(right) else blank, right_width),
        )
        for row in range(height)
    ]


def axed(
    values: tuple[float, ...],
    size: tuple[int, int],
    style: str,
    axis: tuple[int, int],
    behind: Sequence[tuple[float, float] | None] = (),
) -> list[Text]:
    """An area chart of a width and a number of rows, with its highest and lowest value at its left: `axis` gives the
    labels' width and digits. The curve's top edge is brighter than the area below it. `behind` gives for each value two
    others, and the cells between them are a stripe over the area."""
    width, rows = size
    if not values:
        return [Text("") for _ in range(rows)]
    spans = [span for span in behind if span is not None]
    every = (*values, *(value for span in spans for value in span))
    low, high = min(every), max(every)
    labels = [""] * rows
    labels[0], labels[-1] = (f"{high:.{axis[1]}f}" if high > low else ""), f"{low:.{axis[1]}f}"
    drawn = area(values, width - axis[0] - 1, rows, (low, high))
    striped = stripe(behind, rows, (low, high))
    lines: list[Text] = []
    above = " " * width
    for label, blocks, marked in zip(labels, drawn, striped, strict=True):
        line = Text.assemble((label[: axis[0]].rjust(axis[0]), QUIET), " ")
        cells = [
            (BETWEEN, WARN) if column < len(marked) and marked[column] else (block, _shade(style, over))
            for column, (over, block) in enumerate(zip(above, blocks, strict=False))
        ]
        for shade, run in groupby(cells, key=itemgetter(1)):
            line.append("".join(cell for cell, _ in run), style=shade)
        lines.append(line)
        above = blocks
    return lines


def _shade(style: str, over: str) -> str:
    return style if over == " " else f"{style} {QUIET}"
