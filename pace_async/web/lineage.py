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
    opened = (_whole(said) for said in query.getlist("open")[:OPENED])
    return Level(min(most, MOST) if most else FIRST, tuple(number for number in opened if number is not None))


def _whole(said: str) -> int | None:
    return int(said) if said.isascii() and said.isdigit() and len(said) < 10 else None


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
    colours = [tag("option", said, value=said) for said in ("score", "island", "age", "outcome")]
    levels = [tag("option", said, value=most, selected="" if most == FIRST else None) for said, most in LEVELS.items()]
    buttons = (("whole", "Show all"), ("path", "Best path"))
    return tag(
        "p",
        tag("label", "Detail ", tag("select", *levels, id="level")),
        tag("label", "Colour by ", tag("select", *colours, id="colour")),
        *[tag("button", said, type="button", id=key) for key, said in buttons],
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
    there = _chosen(facts, level)
    kept = every if len(there) == len(every) else [row for row in every if row.candidate in there]
    hidden = _left_out(every, there)
    return {
        "direction": facts.header.fitness.name,
        "all": len(every),
        "id": [row.candidate for row in kept],
        "parent": [row.parent if row.parent in there else None for row in kept],
        "score": [row.score for row in kept],
        "island": [row.island for row in kept],
        "outcome": [row.outcome for row in kept],
        "age": [row.completed for row in kept],
        "hidden": [hidden.get(row.candidate, 0) for row in kept],
        "best": [row.candidate for row in facts.lineage],
    }


def _left_out(every: Collection[CompletedCandidate], there: Collection[int]) -> dict[int, int]:
    """How many candidates are left out below each one, where any are. A child is complete after its parent."""
    hidden: dict[int, int] = {}
    for row in reversed(tuple(every)):
        if row.candidate not in there and row.parent is not None:
            hidden[row.parent] = hidden.get(row.parent, 0) + 1 + hidden.get(row.candidate, 0)
    return hidden


def _chosen(facts: Facts, level: Level) -> set[int]:
    """The ids of a level: the opened branches first, then the best candidates, each with all its ancestors."""
    every = facts.account.candidates
    if len(every) <= level.most:
        return {row.candidate for row in every}
    parents = {row.candidate: row.parent for row in every}
    scored = facts.header.fitness.ranked(every)
    kept: set[int] = set()
    _take(kept, [row.candidate for row in facts.lineage], parents, MOST)
    _take(kept, (row.candidate for row in scored), parents, level.most)
    if level.opened:
        below = set(level.opened)
        for row in every:
            if row.parent in below:
                below.add(row.candidate)
        _take(kept, [row.candidate for row in every if row.candidate in below], parents, MOST)
    return kept


def _take(kept: set[int], wanted: Iterable[int], parents: Mapping[int, int | None], most: int) -> None:
    """Add each wanted candidate with its ancestors, until one does not fit into `most`."""
    for candidate in wanted:
        line: list[int] = []
        at: int | None = candidate
        while at is not None and at in parents and at not in kept:
            line.append(at)
            at = parents[at]
        if len(kept) + len(line) > most:
            return
        kept.update(line)
