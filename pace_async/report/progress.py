"""The curve of the best score so far, with every candidate on it. Pure."""

from collections.abc import Mapping, Sequence
from typing import cast

from pace_async.baseline import BaselineComparison
from pace_async.fitness import Fitness
from pace_async.observe import formatting
from pace_async.population.reading.account import CompletedCandidate
from pace_async.report.axes import Frame, path, plot, spread, stairs
from pace_async.report.facts import Facts
from pace_async.report.markup import Markup, join, tag

WIDTH, HEIGHT = 960.0, 320.0
DRAWN = 2_000
"""Candidates of which each is a mark. Of a longer run one mark stands for all that lie in the same CELL."""
CELL = 6.0
"""In units of the drawing."""
NAME = 13.0
"""The height of the name of a line, in units of the drawing."""


def curve(facts: Facts) -> tuple[Markup, int]:
    """The drawing, and how many scores lie beyond its worse edge. x is the number of complete candidates, y the score.
    Each score is a dot, and each candidate without one a tick at the foot. In a run longer than DRAWN one mark stands
    for several. The best program's ancestors have rings, and the task's bounds are lines if they fit. Scores beyond the
    worse edge are drawn on it, because they would flatten all others. Recorded runs beside the run are a
    band from the lowest to the highest, with their median."""
    rows = facts.account.candidates
    scores = [row.score for row in rows]
    low, high, below = _window(scores, facts.header.fitness)
    lines = _lines(facts)
    low, high = _widened(low, high, [value for value, _ in lines if scores])
    frame = Frame(WIDTH, HEIGHT, (0.0, max(1.0, float(len(rows) - 1))), (low, high))
    marks = _bounds(frame, [(value, name) for value, name in lines if low <= value <= high])
    dots = _dots(frame, rows)
    rings = [_ring(frame, row) for row in facts.lineage if row.score is not None]
    steps = _steps(frame, rows)
    drawn = (*marks, *_recorded(frame, facts.beside), *dots, steps, join(rings))
    return plot(frame, "candidates complete", "Best score so far", *drawn), below


def _lines(facts: Facts) -> list[tuple[float, str]]:
    """The values that scores are held against, each with its name."""
    bounds, stop = facts.header, facts.header.config.get("stop")
    target = cast("Mapping[str, object]", stop).get("target") if isinstance(stop, Mapping) else None
    values = [(bounds.lower, "lower bound"), (bounds.upper, "upper bound")]
    if isinstance(target, int | float):
        values.append((float(target), "target"))
    if facts.best_known is not None:
        values.append((facts.best_known, "best known"))
    return values


def _widened(low: float, high: float, values: Sequence[float]) -> tuple[float, float]:
    """Edges that take in the values that are no further away than half the range."""
    near = [value for value in values if low - (high - low) / 2 <= value <= high + (high - low) / 2]
    room = 0.03 * (high - low)
    return min([low, *(value - room for value in near)]), max([high, *(value + room for value in near)])


def _window(scores: list[float | None], fitness: Fitness) -> tuple[float, float, int]:
    """The edges of the scores without those far beyond the worst tenth, and how many those are."""
    known = sorted((score for score in scores if score is not None), key=fitness.merit)
    if len(known) < 20:
        return *spread(known), 0
    tenth, best = known[len(known) // 10], known[-1]
    far = tenth - (best - tenth)
    kept = [score for score in known if fitness.reaches(score, far)]
    return *spread(kept), len(known) - len(kept)


def _steps(frame: Frame, rows: tuple[CompletedCandidate, ...]) -> Markup:
    points: list[tuple[float, float]] = []
    last: float | None = None
    for row in rows:
        if row.best_so_far is not None and (row.best_so_far != last or row.completed == len(rows) - 1):
            last = row.best_so_far
            points.append(frame.at(row.completed, last))
    return path(stairs(points), "best")


def _recorded(frame: Frame, beside: BaselineComparison | None) -> list[Markup]:
    """The band of the recorded runs, up to their end or the run's."""
    if beside is None or beside.differs:
        return []
    step, last = beside.recorded.step, min(beside.recorded.length, int(frame.x[1]))
    spans = [(float(place), span) for place in range(0, last + 1, step) if (span := beside.span(place)) is not None]
    upper, lower, median = (
        [frame.at(place, value) for place, value in points]
        for points in (
            [(place, span.high) for place, span in spans],
            [(place, span.low) for place, span in spans],
            [(place, span.median) for place, span in spans],
        )
    )
    return [path([*upper, *reversed(lower)], "recorded"), path(median, "recorded-median")]


def _dots(frame: Frame, rows: Sequence[CompletedCandidate]) -> list[Markup]:
    if len(rows) <= DRAWN:
        return [_dot(frame, row, 1) for row in rows]
    cells: dict[tuple[int, int], list[CompletedCandidate]] = {}
    across, down = frame.width / CELL / len(rows), frame.height / CELL / (frame.y[1] - frame.y[0])
    for row in rows:
        level = -1 if row.score is None else int((max(frame.y[0], row.score) - frame.y[0]) * down)
        place = int(row.completed * across), level
        near = cells.get(place)
        if near is None:
            cells[place] = [row]
        else:
            near.append(row)
    return [_dot(frame, near[0], len(near)) for near in cells.values()]


def _dot(frame: Frame, row: CompletedCandidate, times: int) -> Markup:
    """The mark of a candidate, and of `times` − 1 others near it."""
    more = f" (and {formatting.count(times - 1, 'candidate')} near it)" if times > 1 else ""
    title = tag("title", describe(row) + more)
    if row.score is None:
        x, y = frame.at(row.completed, frame.y[0])
        return tag("line", title, x1=x, x2=x, y1=y, y2=y - 7, class_="failed")
    x, y = frame.at(row.completed, row.score)
    return tag("circle", title, cx=x, cy=y, r=2.5 if times < 4 else 3.5, class_="dot")


def _ring(frame: Frame, row: CompletedCandidate) -> Markup:
    x, y = frame.at(row.completed, row.score or 0.0)
    return tag("circle", tag("title", describe(row)), cx=x, cy=y, r=5, class_="ring")


def _bounds(frame: Frame, values: Sequence[tuple[float, str]]) -> list[Markup]:
    """A line for each value, with its name. Names that would lie upon each other are one text."""
    drawn: list[Markup] = []
    names: list[tuple[float, list[str]]] = []
    for value, name in sorted(values, reverse=True):
        (x1, y), (x2, _) = frame.at(frame.x[0], value), frame.at(frame.x[1], value)
        drawn.append(tag("line", x1=x1, x2=x2, y1=y, y2=y, class_="bound"))
        if not names or y - names[-1][0] >= NAME:
            names.append((y, []))
        names[-1][1].append(f"{name} {value:g}")
    x = frame.at(frame.x[1], 0.0)[0] - 4
    return [*drawn, *[tag("text", ", ".join(labels), x=x, y=y - 4, class_="tick halo end") for y, labels in names]]


def describe(row: CompletedCandidate) -> str:
    """One candidate in one line, for a tooltip."""
    name = "seed program" if row.candidate == 0 else f"candidate {row.candidate}"
    verdict = formatting.OUTCOMES.get(row.outcome, row.outcome) if row.score is None else formatting.score(row.score)
    experiment = f" · {row.experiment}" if row.experiment else ""
    return f"{name}: {verdict}{experiment}"[:300]
