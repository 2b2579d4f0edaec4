"""Draws the curves of compared runs as SVG: the mean of each arm with the band of its interval. Pure."""

from collections.abc import Sequence
from itertools import starmap

from pace_async.report.axes import Frame, path, plot, spread, stairs
from pace_async.report.comparison import Arm, By, ComparedRun, Estimate, band
from pace_async.report.durations import HOURS, unit_of
from pace_async.report.markup import Markup, join, tag

WIDTH, HEIGHT = 960.0, 360.0
COLOURS = 6
"""Colours of the style sheet. Later arms begin anew, and every curve ends with its arm's letter."""

NAME = 14.0
"""The width of an arm's letter. They stand side by side, so that arms with nearly equal ends can be distinguished."""


def curves(arms: Sequence[Arm], end: float, by: By = "candidates") -> Markup:
    """The drawing. x counts candidates complete, hours of search or USD, y is the best score so far. Runs are thin
    lines behind the mean of their arm. A band that is wider than the scores is cut off at the edges."""
    scores = [score for arm in arms for run in arm.runs for place, score in run.curve if place <= end]
    frame = Frame(WIDTH, HEIGHT, (0.0, end or 1.0), spread(scores))
    drawn = [_arm(frame, arm, end, number) for number, arm in enumerate(arms)]
    label, scale = axis_of(end, by)
    return plot(frame, label, "Best score so far, by arm", *drawn, whole_x=by == "candidates", scale_x=scale)


def axis_of(end: float, by: By) -> tuple[str, float]:
    """The label of an axis from 0 to `end`, and what it shows of one candidate, hour or USD."""
    if by == "hours":
        unit = unit_of(3600 * end, HOURS)
        return f"{unit.name} of search", unit.of_hours()
    return ("candidates complete" if by == "candidates" else "USD spent"), 1.0


def _arm(frame: Frame, arm: Arm, end: float, number: int) -> Markup:
    mean = band(arm, end)
    thin = [_run(frame, run, end) for run in arm.runs] if len(arm.runs) > 1 else []
    line = stairs(frame.at(place, estimate.value) for place, estimate in mean)
    ends = Markup()
    if line:
        x, y = line[-1]
        ends = tag("text", arm.name, x=x - 4 - NAME * number, y=y - 5, class_="arm-name halo end")
    about = tag("title", f"{arm.name}: {', '.join(run.run for run in arm.runs)}")
    return tag(
        "g",
        about,
        _band(frame, mean),
        join(thin),
        path(line, "mean") if line else None,
        ends,
        class_=f"arm{number % COLOURS}",
    )


def _run(frame: Frame, run: ComparedRun, end: float) -> Markup:
    points = [(place, score) for place, score in run.curve if place <= end]
    last = run.best_after(end)
    if last is None:
        return Markup()
    return path(stairs(starmap(frame.at, [*points, (end, last)])), "seed")


def _band(frame: Frame, mean: Sequence[tuple[float, Estimate]]) -> Markup:
    """The area between the ends of the intervals. Empty for an arm of one seed."""
    known = [
        (place, estimate.low, estimate.high)
        for place, estimate in mean
        if estimate.low is not None and estimate.high is not None
    ]
    if len(known) < 2:
        return Markup()
    upper = stairs(frame.at(place, high) for place, _, high in known)
    lower = stairs(frame.at(place, low) for place, low, _ in known)
    return path([*upper, *reversed(lower)], "band")
