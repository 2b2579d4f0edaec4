"""The whole tree of a run for the drawing in the browser, and its page. Pure.

Every candidate is a node. A long run is sent in part (MOST): the best programs with all their ancestors, and beside
each node how many of its children are left out.
"""

from collections import Counter
from typing import Any

from pace_async.population.reading.account import CompletedCandidate
from pace_async.report.facts import Facts
from pace_async.report.markup import tag
from pace_async.report.sections import lineage
from pace_async.web.shell import address, document

MOST = 20_000
"""Nodes that a browser draws smoothly."""


def tree_page(name: str, facts: Facts) -> str:
    """The page around the drawing. The best program's ancestors also stand as a table."""
    colours = [
        tag("option", said, value=value)
        for value, said in (("score", "score"), ("island", "island"), ("age", "age"), ("outcome", "outcome"))
    ]
    bar = tag(
        "p",
        tag("label", "Colour by ", tag("select", *colours, id="colour")),
        *[tag("button", said, type="button", id=key) for key, said in (("whole", "Show all"), ("path", "Best path"))],
        tag("span", "", id="count", role="status"),
        class_="bar",
    )
    drawing = tag(
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
    keys = (
        "Drag to move, turn the wheel to zoom, click a candidate to read it. Keys: arrows go along the branches, Enter "
        "opens, F folds a branch, + and − zoom, 0 shows all."
    )
    return document(
        f"{facts.header.name}: tree",
        tag("h1", "Tree of lineage"),
        bar,
        tag(
            "div",
            tag("div", drawing, class_="card canvas"),
            tag("aside", "", id="beside", aria_live="polite"),
            class_="split",
        ),
        tag("p", keys, class_="sub", id="keys"),
        tag("h2", "The best program and its ancestors"),
        lineage(facts),
        run=name,
        page="tree",
        wide=True,
    )


def tree_of(facts: Facts) -> dict[str, Any]:
    """The nodes as columns: `id`, `parent` (an id, or null), `score` (or null), `island`, `outcome`, `hidden` (children
    that are left out), in the order of completion, and `best` (ids from the seed program to the best)."""
    every = facts.account.candidates
    kept = every if len(every) <= MOST else _chosen(facts)
    there = {row.candidate for row in kept}
    hidden = Counter(row.parent for row in every if row.candidate not in there)
    return {
        "direction": facts.header.direction,
        "all": len(every),
        "id": [row.candidate for row in kept],
        "parent": [row.parent if row.parent in there else None for row in kept],
        "score": [row.score for row in kept],
        "island": [row.island for row in kept],
        "outcome": [row.outcome for row in kept],
        "hidden": [hidden[row.candidate] for row in kept],
        "best": [row.candidate for row in facts.lineage],
    }


def _chosen(facts: Facts) -> list[CompletedCandidate]:
    """The best candidates with their ancestors, MOST at most."""
    known = {row.candidate: row for row in facts.account.candidates}
    sign = 1.0 if facts.header.direction == "maximize" else -1.0
    scored = [row for row in known.values() if row.score is not None]
    kept: set[int] = set()
    for row in sorted(scored, key=lambda row: (-sign * (row.score or 0.0), row.candidate)):
        line: list[int] = []
        at: int | None = row.candidate
        while at is not None and at in known and at not in kept:
            line.append(at)
            at = known[at].parent
        if len(kept) + len(line) > MOST:
            break
        kept.update(line)
    return [row for row in facts.account.candidates if row.candidate in kept]
