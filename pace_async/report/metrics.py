"""The score and each metric of the task over the candidates, one small drawing each. Pure."""

import math
from collections.abc import Sequence

from pace_async.observe import formatting
from pace_async.population.reading.candidate_metrics import CandidateMetrics
from pace_async.report.axes import Frame, path, plot, spread, stairs
from pace_async.report.markup import Markup, join, tag
from pace_async.report.parts import card

WIDTH, HEIGHT = 460.0, 190.0
MOST = 24
"""Metrics that are drawn, the first by name."""

_Points = Sequence[tuple[CandidateMetrics, float]]


def names_of(rows: Sequence[CandidateMetrics]) -> list[str]:
    """The names of all metrics in order, without one that is the score of every program."""
    names = sorted({name for row in rows for name in row.metrics})
    return [name for name in names if any(row.metrics.get(name) != row.score for row in rows)]


def metrics(rows: Sequence[CandidateMetrics], candidates: int) -> Markup:
    """The drawings, over as many candidates, or a sentence if the task has no metrics."""
    names = names_of(rows)
    if not names:
        return card(tag("p", "The task reports no metrics beside the score.", class_="sub"))
    drawn = [_card("Score", [(row, row.score) for row in rows], candidates)]
    for name in names[:MOST]:
        drawn.append(_card(name, [(row, row.metrics[name]) for row in rows if name in row.metrics], candidates))
    notes = ["Dots: candidates. Line: the program that had the best score then."]
    if len(names) > MOST:
        notes.append(f"{formatting.count(len(names) - MOST, 'metric')} more are not drawn.")
    return join([tag("p", " ".join(notes), class_="sub"), tag("div", *drawn, class_="pair")])


def _card(name: str, points: _Points, candidates: int) -> Markup:
    points = [(row, value) for row, value in points if math.isfinite(value)]
    frame = Frame(WIDTH, HEIGHT, (0.0, float(max(1, candidates))), spread([value for _, value in points]))
    dots: list[Markup] = []
    gained: list[tuple[float, float]] = []
    for row, value in points:
        x, y = frame.at(row.completed, value)
        label = "seed program" if row.candidate == 0 else f"candidate {row.candidate}"
        title = tag("title", f"{label}: {formatting.score(value)}")
        dots.append(tag("circle", title, cx=x, cy=y, r=2.5, class_="dot gained" if row.improved else "dot"))
        if row.improved:
            gained.append((x, y))
    if steps := stairs(gained):
        steps.append((frame.at(frame.x[1], 0.0)[0], steps[-1][1]))
    line = path(steps, "best") if steps else Markup()
    return card(tag("h3", name), plot(frame, "candidates complete", name, *dots, line))
