"""Draws the curves of compared runs into a file. Needs matplotlib, an extra."""

import importlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from pace_async.durable import write_whole
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.report.comparison import Arm, band

SUFFIXES = (".svg", ".png")
SIZE_INCHES, DOTS_PER_INCH = (8.0, 4.8), 150
MARGIN = 0.08


def refuse_unless_drawable(path: Path) -> None:
    """Raises UsageError for another kind of file, or without matplotlib."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--plot writes {' or '.join(SUFFIXES)}, not {path.name!r}.")
    _pyplot()


def plot(arms: Sequence[Arm], candidates: int, path: Path, task: str) -> None:
    """The mean curve of each arm with the band of its interval, and each of its runs thin behind it. Raises UsageError
    if the file cannot be written."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=SIZE_INCHES, dpi=DOTS_PER_INCH)
    try:
        for number, arm in enumerate(arms):
            _draw(axes, arm, candidates, f"C{number % 10}")
        scores = [score for arm in arms for run in arm.runs for place, score in run.curve if place <= candidates]
        if scores:  # a wide interval is cut off, so that the curves are not flat
            margin = MARGIN * (max(scores) - min(scores)) or 1.0
            axes.set_ylim(min(scores) - margin, max(scores) + margin)
        axes.set_xlabel("candidates complete")
        axes.set_ylabel("best score so far")
        axes.set_title(task)
        axes.legend()
        drawn = BytesIO()
        kind = path.suffix.lower().removeprefix(".")
        figure.savefig(drawn, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})
        write_whole(path, drawn.getvalue())
    except InfrastructureFault as fault:
        raise UsageError(f"Cannot write {path} ({fault}).") from None
    finally:
        pyplot.close(figure)


def _draw(axes: Any, arm: Arm, candidates: int, colour: str) -> None:
    label = ", ".join([arm.name, *(f"{name}={value}" for name, value in list(arm.settings.items())[:2])])
    seeds = f" ({arm.runs[0].run})" if len(arm.runs) == 1 else f" ({len(arm.runs)} seeds, mean and 95 % interval)"
    mean = band(arm, candidates)
    if len(arm.runs) > 1:
        for run in arm.runs:
            ends = [place for place, _ in run.curve if place < candidates]
            scores = [run.best_after(place) for place in (*ends, candidates)]
            axes.step([*ends, candidates], scores, where="post", color=colour, linewidth=0.6, alpha=0.5)
    places = [place for place, _ in mean]
    axes.step(places, [one.value for _, one in mean], where="post", color=colour, label=_plain(f"{label}{seeds}"))
    if len(arm.runs) > 1:
        lows, highs = ([getattr(one, side) for _, one in mean] for side in ("low", "high"))
        axes.fill_between(places, lows, highs, step="post", color=colour, alpha=0.15, linewidth=0)


def _plain(text: str) -> str:
    """A label as it is written: no mathematics, no control characters."""
    return "".join(character if character.isprintable() else "�" for character in text).replace("$", r"\$")


def _pyplot() -> Any:
    try:
        matplotlib = importlib.import_module("matplotlib")
    except ImportError:
        raise UsageError("--plot needs matplotlib: pip install 'pace-async[plot]'.") from None
    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "pace"
    return importlib.import_module("matplotlib.pyplot")
