"""A plot's frame: maps values to positions on a drawing, with round ticks. Pure.

Positions are in SVG units, x to the right and y down. A drawing is `WIDTH` wide and scales with the page.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pace_async.report.markup import Content, Markup, join, tag

LEFT, RIGHT, TOP, BOTTOM = 52.0, 12.0, 10.0, 34.0


@dataclass(frozen=True, slots=True)
class Frame:
    """The range of a plot: `x` and `y` are the values at its edges."""

    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Position of a value. A value beyond an edge lies on the edge."""
        return (
            LEFT + _share(x, self.x) * (self.width - LEFT - RIGHT),
            self.height - BOTTOM - _share(y, self.y) * (self.height - TOP - BOTTOM),
        )


def spread(values: Iterable[float | None], *, whole: bool = False, room: float = 0.05) -> tuple[float, float]:
    """Edges around finite values with a small margin, (0, 1) if there are none. `whole` gives no margin."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    if low == high:
        pad = 0.5 if whole or low == 0 else abs(low) * 0.1
        return low - pad, high + pad
    pad = 0.0 if whole else (high - low) * room
    return low - pad, high + pad


def ticks(low: float, high: float, about: int = 5, *, whole: bool = False) -> list[float]:
    """Round values between two edges, about so many."""
    raw = (high - low) / max(about, 1)
    if raw <= 0 or not math.isfinite(raw):
        return [low]
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    if whole:
        step = max(1.0, round(step))
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def labelled(values: Sequence[float]) -> list[tuple[float, str]]:
    """Each tick with its label: four digits, or as many as make the labels distinct."""
    digits, labels = 4, list[str]()
    while len(set(labels)) < len(values) and digits < 16:
        labels = ["0" if abs(value) < 1e-12 else f"{value:.{digits}g}" for value in values]
        digits += 1
    return list(zip(values, labels, strict=True))


def plot(
    frame: Frame,
    label_x: str,
    label_y: str,
    *content: Content,
    whole_x: bool = True,
    scale_x: float = 1.0,
    role: str = "img",
) -> Markup:
    """A drawing with grid, ticks and labels, and `content` on it. `scale_x`: what the labels show of 1 on the x
    axis. `role` is group where marks are links."""
    grid: list[Markup] = []
    for value, label in labelled(ticks(*frame.y, about=max(2, int(frame.height // 45)))):
        _, y = frame.at(frame.x[0], value)
        grid.append(tag("line", x1=LEFT, x2=frame.width - RIGHT, y1=y, y2=y, class_="grid"))
        grid.append(tag("text", label, x=LEFT - 6, y=y + 4, class_="tick end"))
    label_range = (frame.x[0] * scale_x, frame.x[1] * scale_x)
    for value, label in labelled(ticks(*label_range, about=max(3, int(frame.width // 90)), whole=whole_x)):
        x, _ = frame.at(value / scale_x, frame.y[0])
        grid.append(tag("text", label, x=x, y=frame.height - BOTTOM + 15, class_="tick middle"))
    grid.append(tag("text", label_x, x=frame.width - RIGHT, y=frame.height - 4, class_="label end"))
    return drawing(frame.width, frame.height, label_y, join(grid), *content, role=role)


def drawing(width: float, height: float, name: str, *content: Content, role: str = "img") -> Markup:
    """An SVG that scales with its container. Screen readers read out `name`."""
    view = f"0 0 {width:g} {height:g}"
    return tag("svg", tag("title", name), *content, viewBox=view, role=role, xmlns="http://www.w3.org/2000/svg")


def stairs(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of a line that stays level until the next point."""
    corners: list[tuple[float, float]] = []
    for x, y in points:
        corners += [(x, corners[-1][1]), (x, y)] if corners else [(x, y)]
    return corners


def path(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """Straight lines through positions."""
    steps = " ".join(f"{'M' if i == 0 else 'L'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))
    return tag("path", d=steps, class_=class_)


def _share(value: float, edges: tuple[float, float]) -> float:
    return min(1.0, max(0.0, (value - edges[0]) / (edges[1] - edges[0])))
