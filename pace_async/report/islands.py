"""The islands of a run: each one's best score, what it did when it had stopped improving, and why. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pace_async.events import IslandActed
from pace_async.observe import formatting
from pace_async.population.reading.account import CompletedCandidate
from pace_async.report.axes import Frame, path, plot, spread, stairs
from pace_async.report.facts import Facts
from pace_async.report.markup import Content, Markup, join, tag
from pace_async.report.parts import card, scrolling, table
from pace_async.search.actions import reason_in_words

WIDTH, HEIGHT = 460.0, 190.0
NEWEST = 200
"""Actions that the table shows."""


class Link(Protocol):
    """A candidate's number, as a link where the page has one. `mark` is a drawing's mark of it, in place of the
    number."""

    def __call__(self, number: int, mark: Markup | None = None) -> Content: ...


@dataclass(slots=True)
class _Island:
    """What happened on one island. `curve` has (candidates of the run complete, best score of the island)."""

    rollouts: int = 0
    scored: int = 0
    best: CompletedCandidate | None = None
    curve: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])


def islands(facts: Facts, actions: Sequence[IslandActed], link: Link) -> Markup:
    """A drawing for each island, the islands as a table, and their actions, the newest first."""
    by_number = _islands(facts)
    heights = spread([score for island in by_number.values() for _, score in island.curve])
    cards = [
        card(tag("h3", f"Island {number}"), _drawing(facts, number, by_number[number], actions, heights))
        for number in sorted(by_number)
    ]
    rows = [_row(link, number, by_number[number]) for number in sorted(by_number)]
    marked = " Vertical lines: it went back or crossed over." if actions else ""
    newest = [_action(link, action) for action in reversed(actions[-NEWEST:])]
    return join(
        [
            tag(
                "p", f"The best score that each island itself has found, in the order of the run.{marked}", class_="sub"
            ),
            tag("div", *cards, class_="pair") if cards else tag("p", "No candidate is complete yet.", class_="sub"),
            scrolling("Islands", table(rows, ""), class_="card wide after") if rows else None,
            tag("h3", "When an island had stopped improving", class_="after"),
            scrolling("Actions", table(newest, _NEVER)),
        ]
    )


_NEVER = "No island went back or crossed over with another."


def _islands(facts: Facts) -> dict[int, _Island]:
    fitness = facts.header.fitness
    by_number: defaultdict[int, _Island] = defaultdict(_Island)
    for row in facts.account.candidates:
        if row.island is None:
            continue
        island = by_number[row.island]
        island.rollouts += 1
        if row.score is None:
            continue
        island.scored += 1
        if not island.curve or fitness.better(row.score, island.curve[-1][1]):
            island.best = row
            island.curve.append((row.completed, row.score))
    return dict(by_number)


def _drawing(
    facts: Facts, number: int, island: _Island, actions: Sequence[IslandActed], heights: tuple[float, float]
) -> Markup:
    rows = facts.account.candidates
    frame = Frame(WIDTH, HEIGHT, (0.0, max(1.0, float(len(rows) - 1))), heights)
    dots = [
        tag("circle", cx=x, cy=y, r=2.5, class_="dot gained") for x, y in (frame.at(*point) for point in island.curve)
    ]
    points = stairs(frame.at(*point) for point in island.curve)
    if points:
        points.append((frame.at(frame.x[1], 0.0)[0], points[-1][1]))
    places = {row.candidate: row.completed for row in rows}
    lines = [_mark(frame, action, places) for action in actions if action.island == number and action.lease in places]
    title = f"Best score of island {number}"
    return plot(frame, "candidates complete", title, join([*lines, *dots]), path(points, "best") if points else None)


def _mark(frame: Frame, acted: IslandActed, places: dict[int, int]) -> Markup:
    x, _ = frame.at(places[acted.lease], 0.0)
    _, top = frame.at(0.0, frame.y[1])
    _, foot = frame.at(0.0, frame.y[0])
    return tag("line", tag("title", _words(acted)), x1=x, x2=x, y1=top, y2=foot, class_="acted")


def _row(link: Link, number: int, island: _Island) -> dict[str, Content]:
    best = island.best
    return {
        "island": number,
        "candidates": f"{island.rollouts:,}",
        "with a score": f"{island.scored:,}",
        "score": "–" if best is None or best.score is None else formatting.score(best.score),
        "best": "–" if best is None else link(best.candidate),
        "experiment": None if best is None else best.experiment,
    }


def _action(link: Link, acted: IslandActed) -> dict[str, Content]:
    return {
        "before": link(acted.lease),
        "island": acted.island,
        "what": _words(acted),
        "from": link(acted.candidate),
        "why": reason_in_words(acted),
    }


def _words(acted: IslandActed) -> str:
    if acted.action == "crossover":
        return f"crossover with island {acted.partner}"
    return f"back to the program of candidate {acted.candidate}"
