"""Draws a comparison with matplotlib, an extra. No state of pyplot is touched, so a notebook keeps its own."""

import importlib
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pace_async.durable import write_whole
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.installing import install_line
from pace_async.report.compared_curves import axis_of
from pace_async.report.comparison import Arm, band

if TYPE_CHECKING:
    from pace_async.report.compared import Comparison

SUFFIXES = (".svg", ".png")
SIZE_INCHES, DOTS_PER_INCH = (8.0, 4.8), 150
MARGIN = 0.08


def refuse_unless_drawable(path: Path | None = None) -> None:
    """Raises UsageError for another kind of file, or without matplotlib."""
    if path is not None and path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"A plot is written as {' or '.join(SUFFIXES)}, not {path.name!r}.")
    _matplotlib("figure")


def draw_comparison(comparison: "Comparison") -> Any:
    """A figure: the mean curve of each arm with the band of its interval, each of its runs thin behind it, and what the
    best programs score at fresh seeds as diamonds at the end. The legend is below the axes. Raises UsageError without
    matplotlib."""
    figure = _matplotlib("figure").Figure(figsize=SIZE_INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    axes, end = figure.subplots(), comparison.place
    label, scale = axis_of(end, comparison.by)
    for number, arm in enumerate(comparison.arms):
        _draw(axes, arm, (end, scale), f"C{number % 10}")
    fresh = [score for arm in comparison.arms for score in arm.scores(end, fresh=True)] if comparison.has_fresh else []
    scores = [score for _, run in comparison.every for place, score in run.curve if place <= end] + fresh
    if scores:  # a wide interval is cut off, so that the curves are not flat
        margin = MARGIN * (max(scores) - min(scores)) or 1.0
        axes.set_ylim(min(scores) - margin, max(scores) + margin)
    for number, arm in enumerate(comparison.arms if fresh else ()):
        at_end = arm.scores(end, fresh=True)
        style = {"color": f"C{number % 10}", "fillstyle": "none", "clip_on": False}
        axes.plot([scale * end] * len(at_end), at_end, "D", **style)
    if fresh:
        axes.plot([], [], "D", color="0.4", fillstyle="none", label="the best programs at fresh seeds")
    axes.set_xlabel(label)
    axes.set_ylabel("best score so far")
    axes.set_title(_plain(comparison.every[0][1].task))
    figure.legend(loc="outside lower center", frameon=False)
    return figure


def write(figure: Any, path: Path) -> None:
    """Write the figure. Raises UsageError for another kind of file, and if it cannot be written."""
    refuse_unless_drawable(path)
    content, kind = BytesIO(), path.suffix.lower().removeprefix(".")
    with _matplotlib().rc_context({"svg.hashsalt": "pace"}):
        figure.savefig(content, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})
    try:
        write_whole(path, content.getvalue())
    except InfrastructureFault as fault:
        raise UsageError(f"Cannot write {path} ({fault}).") from None


def _draw(axes: Any, arm: Arm, x_axis: tuple[float, float], colour: str) -> None:
    """`x_axis`: the end of the axis, and what the axis shows of one candidate, hour or USD."""
    end, scale = x_axis
    label = ", ".join([arm.name, *(f"{name}={value}" for name, value in list(arm.settings.items())[:2])])
    seeds = f" ({arm.runs[0].run})" if len(arm.runs) == 1 else f" ({len(arm.runs)} seeds, mean and 95 % interval)"
    mean = band(arm, end)
    if len(arm.runs) > 1:
        for run in arm.runs:
            ends = [place for place, _ in run.curve if place < end]
            scores = [run.best_after(place) for place in (*ends, end)]
            axes.step(
                [scale * place for place in (*ends, end)], scores, where="post", color=colour, linewidth=0.6, alpha=0.5
            )
    places = [scale * place for place, _ in mean]
    axes.step(
        places, [estimate.value for _, estimate in mean], where="post", color=colour, label=_plain(f"{label}{seeds}")
    )
    if len(arm.runs) > 1:
        lows, highs = ([getattr(estimate, side) for _, estimate in mean] for side in ("low", "high"))
        axes.fill_between(places, lows, highs, step="post", color=colour, alpha=0.15, linewidth=0)


def _plain(text: str) -> str:
    """A label as it is written: no mathematics, no control characters."""
    return "".join(character if character.isprintable() else "�" for character in text).replace("$", r"\$")


def _matplotlib(module: str = "") -> Any:
    try:
        whole = importlib.import_module("matplotlib")
        return importlib.import_module(f"matplotlib.{module}") if module else whole
    except ImportError:
        raise UsageError(f"A plot needs matplotlib: {install_line('plot')}.") from None
