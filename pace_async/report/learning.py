"""The learner's panels and the histogram of staleness. Pure. Each measure has one small drawing over the groups."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from pace_async.population.reading.account import ShippedGroup
from pace_async.report.axes import Frame, path, plot, spread
from pace_async.report.facts import Facts
from pace_async.report.markup import Markup, joined, tag

WIDTH, HEIGHT = 460.0, 190.0
MEASURES = (
    ("entropy", "Entropy of the advisor's tokens, nats"),
    ("grad_norm", "Gradient norm before clipping"),
    ("loss", "Loss"),
    ("alpha", "Alpha: weight of the best-of-k branch"),
    ("ess", "Effective sample size of a group, share"),
    ("clip_fraction", "Share of tokens clipped"),
)


def panels(facts: Facts) -> list[tuple[str, Markup]]:
    """(title, drawing) for each measure that the learner reported, rewards first."""
    found = [("Rewards of each group, and their mean", _rewards(facts))] if facts.account.rewards else []
    for name, title in MEASURES:
        if any(getattr(row, name) is not None for row in facts.account.groups):
            found.append((title, _line(facts.account.groups, name, title)))
    return found


def staleness(facts: Facts) -> Markup:
    """The histogram of the trained rollouts' staleness. The run's bound is marked."""
    counts = Counter(row.staleness or 0 for row in facts.account.rewards if row.state == "trained")
    bound = facts.header.max_staleness
    last = min(max([bound, *counts]), max(counts, default=0) + 8)
    top = max(counts.values(), default=1)
    frame = Frame(WIDTH, HEIGHT, (-0.5, last + 0.5), (0.0, top * 1.12))
    bars: list[Markup] = []
    for value in range(last + 1):
        (x1, y), (x2, foot) = frame.at(value - 0.35, counts[value]), frame.at(value + 0.35, 0)
        bars.append(
            tag(
                "rect",
                x=x1,
                y=y,
                width=x2 - x1,
                height=max(0.0, foot - y),
                class_="bar over" if value > bound else "bar",
            )
        )
        bars.append(tag("text", str(counts[value]), x=(x1 + x2) / 2, y=y - 4, class_="tick middle"))
    if bound <= last:
        x, y = frame.at(bound + 0.5, frame.y[1])
        bars.append(tag("line", x1=x, x2=x, y1=y, y2=frame.at(0, 0)[1], class_="bound"))
    return plot(frame, "updates", "Staleness of trained rollouts", *bars)


def _edges(groups: Sequence[ShippedGroup]) -> tuple[float, float]:
    numbers = [float(row.group_number) for row in groups]
    return (min(numbers), max(*numbers, min(numbers) + 1)) if numbers else (0.0, 1.0)


def _line(groups: Sequence[ShippedGroup], name: str, title: str) -> Markup:
    frame = Frame(WIDTH, HEIGHT, _edges(groups), spread(getattr(row, name) for row in groups))
    pieces: list[list[tuple[float, float]]] = [[]]
    skipped: list[Markup] = []
    for row in groups:
        if getattr(row, name) is not None:
            pieces[-1].append(frame.at(row.group_number, getattr(row, name)))
        elif pieces[-1]:
            pieces.append([])
        if row.state == "skipped":
            x, y = frame.at(row.group_number, frame.y[0])
            tip = tag("title", f"group {row.group_number} skipped: {row.reason}")
            skipped.append(tag("line", tip, x1=x, x2=x, y1=y, y2=y - 7, class_="failed"))
    dots = [tag("circle", cx=x, cy=y, r=2, class_="point") for piece in pieces for x, y in piece]
    lines = [path(piece, "measure") for piece in pieces if len(piece) > 1]
    return plot(frame, "group", title, *lines, *dots, *skipped)


def _rewards(facts: Facts) -> Markup:
    by_group: defaultdict[int, list[Any]] = defaultdict(list)
    for row in facts.account.rewards:
        if row.reward is not None:
            by_group[row.group_number].append(row.reward)
    everything = [value for values in by_group.values() for value in values]
    frame = Frame(WIDTH, HEIGHT, _edges(facts.account.groups), spread(everything))
    dots = [
        tag("circle", cx=x, cy=y, r=2.5, class_="dot")
        for number, values in by_group.items()
        for x, y in (frame.at(number, value) for value in values)
    ]
    means = [frame.at(number, sum(values) / len(values)) for number, values in sorted(by_group.items())]
    return plot(frame, "group", "Rewards of each group", joined(dots), path(means, "best"))
