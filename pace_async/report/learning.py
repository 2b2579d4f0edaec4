"""The learner's panels and the histogram of staleness. Pure. Each measure has one small drawing over a common axis."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pace_async.population.reading.account import ShippedGroup
from pace_async.population.reading.rewards import RewardsOfGroup
from pace_async.report.axes import Frame, path, plot, spread, stairs
from pace_async.report.durations import HOURS, unit_of
from pace_async.report.facts import Facts
from pace_async.report.markup import Markup, join, tag
from pace_async.report.progress_axis import MOST, Axis, thinned

WIDTH, HEIGHT = 460.0, 190.0
MEASURES = (
    ("entropy", "Entropy of the advisor's tokens, nats"),
    ("grad_norm", "Gradient norm before clipping"),
    ("loss", "Loss"),
    ("alpha", "Alpha: weight of the best-of-k branch"),
    ("ess", "Effective sample size of a group, share"),
    ("k3", "k3: how far the trained policy is from the sampled one, nats"),
    ("clip_fraction", "Share of tokens clipped"),
)
AGED = (
    ("ess_age_", "Effective sample size by age of the tokens, share"),
    ("k3_age_", "k3 by age of the tokens, nats"),
)
AGES = 6
"""Ages that are drawn, the youngest. The style sheet has as many colours."""
PARSED_OVER = 40
"""Parts of the run of which each gives one point of the parse rate."""

Points = Sequence[tuple[float, float]]
PlacedGroups = Sequence[tuple[float, ShippedGroup]]
"""Groups with their places on the axis, those without a place left out."""


def panels(facts: Facts, axis: Axis) -> list[tuple[str, Markup]]:
    """(title, drawing) for each measure that the run has, the paper's three first: score, entropy, gradient norm."""
    groups = facts.account.groups
    placed = [(x, row) for row in groups if (x := axis.of(row)) is not None]
    drawings = [("Best score so far", _panel(axis, "Best score so far", _best(facts, axis), steps=True))]
    drawings += [
        (title, _measure(placed, axis, name, title))
        for name, title in MEASURES
        if any(getattr(row, name) is not None for row in groups)
    ]
    if facts.account.rewards:
        places = {row.group_number: x for x, row in placed}
        rewards = [(places[row.group_number], row) for row in facts.account.rewards if row.group_number in places]
        drawings.insert(3, ("Rewards of each group: mean, least and greatest", _rewards(rewards, axis)))
        drawings.insert(4, ("Spread of the rewards in a group (standard deviation)", _spread(rewards, axis)))
    for prefix, title in AGED:
        lines = _aged(placed, prefix)
        if lines:
            drawings.append((title, _by_age(axis, title, lines)))
    parsed = _parsed(facts, axis)
    if parsed:
        drawings.append(("Share of answers that parse", _panel(axis, "Share of answers that parse", parsed)))
    return drawings


def staleness(facts: Facts) -> Markup:
    """The histogram of the trained rollouts' staleness. The run's bound is marked."""
    counts = facts.account.ages
    bound = facts.header.max_staleness
    last = min(max([bound, *counts]), max(counts, default=0) + 8)
    top = max(counts.values(), default=1)
    frame = Frame(WIDTH, HEIGHT, (-0.5, last + 0.5), (0.0, top * 1.12))
    bars: list[Markup] = []
    for value in range(last + 1):
        count = counts.get(value, 0)
        (x1, y), (x2, foot) = frame.at(value - 0.35, count), frame.at(value + 0.35, 0)
        over = "bar over" if value > bound else "bar"
        bars.append(tag("rect", x=x1, y=y, width=x2 - x1, height=max(0.0, foot - y), class_=over))
        bars.append(tag("text", f"{count:,}", x=(x1 + x2) / 2, y=y - 4, class_="tick middle"))
    if bound <= last:
        x, y = frame.at(bound + 0.5, frame.y[1])
        bars.append(tag("line", x1=x, x2=x, y1=y, y2=frame.at(0, 0)[1], class_="bound"))
    return plot(frame, "updates", "Staleness of trained rollouts", *bars)


def _best(facts: Facts, axis: Axis) -> Points:
    points: list[tuple[float, float]] = []
    for row in facts.account.candidates:
        if row.best_so_far is not None and (not points or points[-1][1] != row.best_so_far):
            points.append((axis.at(row.at), row.best_so_far))
    return [*points, (axis.edges[1], points[-1][1])] if points else []


def _panel(axis: Axis, title: str, points: Points, *, steps: bool = False) -> Markup:
    frame = _frame(axis, [y for _, y in points])
    return _plot(frame, axis, title, _line(frame, stairs(points) if steps else points))


def _measure(placed: PlacedGroups, axis: Axis, name: str, title: str) -> Markup:
    """A line that is broken where a group has no value, with a red tick for each skipped group."""
    frame = _frame(axis, [value for _, row in placed if (value := getattr(row, name)) is not None])
    pieces: list[list[tuple[float, float]]] = [[]]
    skipped: list[Markup] = []
    for x, row in placed:
        value = getattr(row, name)
        if value is not None:
            pieces[-1].append((x, value))
        elif pieces[-1] and len(placed) <= MOST:
            pieces.append([])
        if row.state == "skipped" and len(skipped) < 200:
            left, foot = frame.at(x, frame.y[0])
            tip = tag("title", f"group {row.group_number} skipped: {row.reason}")
            skipped.append(tag("line", tip, x1=left, x2=left, y1=foot, y2=foot - 7, class_="failed"))
    return _plot(frame, axis, title, *(_line(frame, piece) for piece in pieces), *skipped)


def _line(frame: Frame, points: Points, class_: str = "measure", point: str = "point") -> Markup:
    """A line, with marks if it has few points, so that one point alone is seen."""
    places = [frame.at(x, y) for x, y in thinned(points)]
    dots = places if len(places) <= 60 else []
    marks = [tag("circle", cx=x, cy=y, r=2, class_=point) for x, y in dots]
    return join([path(places, class_) if len(places) > 1 else Markup(), *marks])


def _rewards(rows: Sequence[tuple[float, RewardsOfGroup]], axis: Axis) -> Markup:
    frame = _frame(axis, [value for _, row in rows for value in (row.least, row.most)])
    upper = [frame.at(x, y) for x, y in thinned([(x, row.most) for x, row in rows])]
    lower = [frame.at(x, y) for x, y in thinned([(x, row.least) for x, row in rows])]
    area = path([*upper, *reversed(lower)], "band") if len(upper) > 1 else Markup()
    mean = _line(frame, [(x, row.mean) for x, row in rows], "best")
    return _plot(frame, axis, "Rewards of each group", tag("g", area, mean, class_="arm0"))


def _spread(rows: Sequence[tuple[float, RewardsOfGroup]], axis: Axis) -> Markup:
    points = [(x, row.spread) for x, row in rows]
    frame = _frame(axis, [y for _, y in points])
    return _plot(frame, axis, "Spread of the rewards in a group", _line(frame, points))


def _aged(placed: PlacedGroups, prefix: str) -> dict[int, list[tuple[float, float]]]:
    lines: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for x, row in placed:
        for name, value in row.by_age.items():
            if name.startswith(prefix):
                lines[int(name.removeprefix(prefix))].append((x, value))
    return {age: lines[age] for age in sorted(lines)[:AGES]}


def _by_age(axis: Axis, title: str, lines: Mapping[int, Points]) -> Markup:
    frame = _frame(axis, [y for points in lines.values() for _, y in points])
    drawn: list[Markup] = []
    for place, (age, points) in enumerate(lines.items()):
        x, y = frame.at(*thinned(points)[-1])
        name = tag("text", str(age), x=x - 2 - 12 * place, y=y - 4, class_="arm-name halo end")
        line = _line(frame, points, "mean", "mean")
        drawn.append(tag("g", tag("title", f"age {age}"), line, name, class_=f"arm{place}"))
    return _plot(frame, axis, title, *drawn)


def _parsed(facts: Facts, axis: Axis) -> Points:
    rows = [row for row in facts.account.candidates if row.candidate > 0]
    each = max(1, -(-len(rows) // PARSED_OVER))
    parts = (rows[first : first + each] for first in range(0, len(rows), each))
    return [
        (axis.at(part[-1].at), sum(row.outcome != "unparsed" for row in part) / len(part)) for part in parts if part
    ]


def _frame(axis: Axis, values: Sequence[float]) -> Frame:
    return Frame(WIDTH, HEIGHT, axis.edges, spread(values))


def _plot(frame: Frame, axis: Axis, title: str, *content: Markup) -> Markup:
    if axis.by == "hours":
        unit = unit_of(3600 * frame.x[1], HOURS)
        return plot(frame, unit.name, title, *content, whole_x=False, scale_x=unit.of_hours())
    return plot(frame, {"candidates": "candidates complete", "groups": "group"}[axis.by], title, *content)
