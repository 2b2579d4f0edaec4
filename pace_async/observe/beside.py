"""What a screen and a summary say about the recorded runs beside a run. Pure."""

from collections.abc import Sequence

from rich.text import Text

from pace_async.observe import formatting
from pace_async.observe.formatting import clean
from pace_async.observe.lines import BETWEEN, QUIET, STRONG, WARN
from pace_async.observe.model import RunView


def behind(view: RunView, points: int) -> list[tuple[float, float] | None]:
    """The lowest and the highest recorded score at each point of `view.best_so_far`, None where none is recorded."""
    if view.beside is None:
        return []
    spans = [view.beside.span(view.candidates * (point + 1) / points) for point in range(points)]
    return [None if span is None else (span.low, span.high) for span in spans]


def legends(view: RunView) -> list[Text]:
    """The line under the chart, its longest form first. Empty without recorded runs."""
    if view.beside is None:
        return []
    mark, label = Text(f"{BETWEEN} ", style=WARN), clean(view.beside.recorded.what)
    number = len(view.beside.recorded.seeds)
    forms = [f"{label}, {number} recorded runs", f"{label}, {number} recorded", label]
    if view.beside.differs:
        return [Text.assemble(mark, (f"{form}: not compared", QUIET)) for form in forms]
    lead = None if view.best is None else view.beside.lead(view.best.score, view.candidates)
    if view.best is None or lead is None:
        return [Text.assemble(mark, (form, QUIET)) for form in forms]
    ahead = view.beside.worse_than(view.best.score, view.candidates)
    figures = Text.assemble(
        ("ahead of ", QUIET),
        (f"{ahead} of {number}", STRONG),
        (", ", QUIET),
        f"{'+' if lead >= 0 else '−'}{formatting.score(abs(lead))}",
        (" to their median", QUIET),
    )
    short = Text.assemble(("ahead of ", QUIET), (f"{ahead} of {number}", STRONG))
    return [Text.assemble(mark, (f"{form}: ", QUIET), part) for part in (figures, short) for form in forms]


def fitting(forms: Sequence[Text], width: int) -> Text:
    """The first form that fits, else the last."""
    return next((form for form in forms if form.cell_len <= width), forms[-1])


def recorded_words(view: RunView) -> str:
    """The recorded runs in the closing summary: what they scored, and how many of them this run has beaten. Empty
    without any."""
    beside = view.beside
    if beside is None:
        return ""
    number = len(beside.recorded.seeds)
    runs = f"{number} recorded runs {clean(beside.recorded.what)} ({clean(beside.recorded.date)})"
    if beside.differs:
        return f"{runs}: not compared, because {clean(beside.differs)}"
    span = beside.span(view.candidates)
    if span is None or view.best is None:
        return f"{runs}: they end after {formatting.count(beside.recorded.length, 'candidate')}"
    low, median, high = (formatting.score(value) for value in (span.low, span.median, span.high))
    ahead = f"this run is ahead of {beside.worse_than(view.best.score, view.candidates)} of them"
    return f"{runs} scored {low} to {high} after as many candidates (median {median}); {ahead}"
