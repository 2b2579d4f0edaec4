"""The tree of a run for the drawing in the browser, in levels of detail, and its page. Pure.

A level has the best programs with all their ancestors, as many as it may show. Beside each node stands how many
candidates below it are left out. A branch can be opened: then all below it is shown too. However long the run, a
browser gets at most MOST nodes.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import QueryParams

from pace_async.population.reading.account import CompletedCandidate
from pace_async.report.facts import Facts
from pace_async.report.markup import Markup, tag
from pace_async.report.sections import lineage
from pace_async.web.shell import address, document, linking

MOST = 20_000
"""Nodes that a browser draws smoothly."""
LEVELS = {"300 best": 300, "1,000 best": 1_000, "3,000 best": 3_000, "all": MOST}
"""Nodes of each level, by its name."""
FIRST = 1_000
"""The level that is shown at first. A run of no more candidates is shown whole."""
OPENED = 100
"""Branches that one address can open."""


@dataclass(frozen=True, slots=True)
class Level:
    """The best program with its ancestors, the best nodes up to `most`, and all below the candidates in `opened`."""

    most: int = FIRST
    opened: tuple[int, ...] = ()


def level_of(query: QueryParams) -> Level:
    """The level that an address names. What it does not say, or says wrongly, is the default."""
    most = _whole(query.get("most", ""))
    opened = (_whole(value) for value in query.getlist("open")[:OPENED])
    return Level(min(most, MOST) if most else FIRST, tuple(number for number in opened if number is not None))


def _whole(value: str) -> int | None:
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None


def tree_page(name: str, facts: Facts) -> str:
    """The page around the drawing. The best program's ancestors also stand as a table."""
    return document(
        f"{facts.header.name}: tree",
        tag("h1", "Tree of lineage"),
        _bar(),
        tag(
            "div",
            tag("div", _drawing(name), class_="card canvas"),
            tag("aside", "", id="beside", aria_live="polite", aria_label="The chosen candidate"),
            class_="split",
        ),
        tag("p", _KEYS, class_="sub", id="keys"),
        tag("h2", "The best program and its ancestors"),
        lineage(facts, linking(name)),
        run=name,
        page="tree",
        wide=True,
    )


_KEYS = (
    "Drag to move, turn the wheel to zoom, click a candidate to read it. A ring has more below it: +12 are twelve "
    "candidates that are not drawn. Keys: arrows go along the branches, Enter opens a candidate, F folds a branch or "
    "draws what is left out below it, + and − zoom, 0 shows all."
)


def _bar() -> Markup:
    colours = [tag("option", label, value=label) for label in ("score", "island", "age", "outcome")]
    levels = [
        tag("option", label, value=most, selected="" if most == FIRST else None) for label, most in LEVELS.items()
    ]
    buttons = (("whole", "Show all"), ("path", "Best path"))
    return tag(
        "p",
        tag("label", "Detail ", tag("select", *levels, id="level")),
        tag("label", "Colour by ", tag("select", *colours, id="colour")),
        *[tag("button", label, type="button", id=key) for key, label in buttons],
        tag("span", "", id="count", role="status"),
        class_="bar",
    )


def _drawing(name: str) -> Markup:
    return tag(
        "canvas",
        "The tree of lineage. Use the table below without a picture.",
        id="tree",
        tabindex="0",
        role="application",
        aria_label="Tree of lineage: arrow keys go along the branches, Enter opens a candidate, F folds a branch",
        aria_describedby="keys",
        data_source=address(name, "tree.json"),
        data_candidate=address(name) + "/candidate/",
    )


def tree_of(facts: Facts, level: Level | None = None) -> dict[str, Any]:
    """The nodes of a level as columns: `id`, `parent` (an id, or null), `score` (or null), `island`, `outcome`, `age`
    (place in the order of completion), `hidden` (candidates below it that are left out), in that order, and `best` (ids
    from the seed program to the best). `all` counts the run's candidates."""
    level = level or Level()
    every = facts.account.candidates
    ids = _ids_of_level(facts, level)
    rows = every if len(ids) == len(every) else [row for row in every if row.candidate in ids]
    hidden = _left_out(every, ids)
    return {
        "direction": facts.header.fitness.name,
        "all": len(every),
        "id": [row.candidate for row in rows],
        "parent": [row.parent if row.parent in ids else None for row in rows],
        "score": [row.score for row in rows],
        "island": [row.island for row in rows],
        "outcome": [row.outcome for row in rows],
        "age": [row.completed for row in rows],
        "hidden": [hidden.get(row.candidate, 0) for row in rows],
        "best": [row.candidate for row in facts.lineage],
    }


def _left_out(every: Collection[CompletedCandidate], ids: Collection[int]) -> dict[int, int]:
    """How many candidates are left out below each one, where any are. A child is complete after its parent."""
    hidden: dict[int, int] = {}
    for row in reversed(tuple(every)):
        if row.candidate not in ids and row.parent is not None:
            hidden[row.parent] = hidden.get(row.parent, 0) + 1 + hidden.get(row.candidate, 0)
    return hidden


def _ids_of_level(facts: Facts, level: Level) -> set[int]:
    """The ids of a level: the opened branches first, then the best candidates, each with all its ancestors."""
    every = facts.account.candidates
    if len(every) <= level.most:
        return {row.candidate for row in every}
    parents = {row.candidate: row.parent for row in every}
    scored = facts.header.fitness.ranked(every)
    ids: set[int] = set()
    _take(ids, [row.candidate for row in facts.lineage], parents, MOST)
    _take(ids, (row.candidate for row in scored), parents, level.most)
    if level.opened:
        below = set(level.opened)
        for row in every:
            if row.parent in below:
                below.add(row.candidate)
        _take(ids, [row.candidate for row in every if row.candidate in below], parents, MOST)
    return ids


def _take(ids: set[int], candidates: Iterable[int], parents: Mapping[int, int | None], most: int) -> None:
    """Add each wanted candidate with its ancestors, until one does not fit into `most`."""
    for candidate in candidates:
        line: list[int] = []
        at: int | None = candidate
        while at is not None and at in parents and at not in ids:
            line.append(at)
            at = parents[at]
        if len(ids) + len(line) > most:
            return
        ids.update(line)
