"""The tree of lineage: the best programs with all their ancestors, from the seed program to the right. Pure.

Invariant: every node but the first has its parent one column to its left. Among siblings, the branch to the best score
is on top. A large population is drawn in part, and the caption says which part.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pace_async.fitness import Fitness
from pace_async.observe import formatting
from pace_async.population.reading.account import CompletedCandidate
from pace_async.report.axes import drawing
from pace_async.report.facts import Facts
from pace_async.report.markup import Markup, tag
from pace_async.report.progress import describe

SHOWN = 48
COLUMN, ROW, PAD, LETTER = 116.0, 17.0, 12.0, 6.9


@dataclass(frozen=True, slots=True)
class Node:
    """A candidate in the tree: `depth` generations from the seed program, on line `line`."""

    row: CompletedCandidate
    depth: int
    line: float


def tree(facts: Facts) -> tuple[Markup, str]:
    """(drawing, caption)."""
    chosen = _best_with_ancestors(facts)
    nodes = place(chosen, facts.header.fitness)
    best = {row.candidate for row in facts.lineage}
    width = PAD * 2 + COLUMN * (1 + max((node.depth for node in nodes.values()), default=0))
    height = PAD * 2 + ROW * (1 + max((node.line for node in nodes.values()), default=0))
    thick_last = sorted(nodes.values(), key=lambda node: node.row.candidate in best)
    edges = [_edge(nodes[node.row.parent], node, best) for node in thick_last if node.row.parent in nodes]
    marks = [_mark(node, best) for node in nodes.values()]
    scored = sum(row.score is not None for row in facts.account.candidates)
    ends = min(SHOWN, scored)
    caption = (
        f"The {ends} best of {scored} programs with a score, and their ancestors"
        if ends < scored
        else "All programs with a score, and their ancestors"
    )
    picture = drawing(width, height, "Tree of lineage", *edges, *marks)
    sized = Markup(picture.replace("<svg ", f'<svg width="{width:.0f}" height="{height:.0f}" ', 1))
    drawn = f"{caption}: {formatting.count(len(nodes), 'program')}"
    return sized, f"{drawn}. The line to the best one is drawn thick; each shows its score."


def place(chosen: Mapping[int, CompletedCandidate], fitness: Fitness) -> dict[int, Node]:
    """Depth and line of each candidate. A candidate whose parent is not chosen is the root of its own tree."""
    children: defaultdict[int | None, list[int]] = defaultdict(list)
    for candidate, row in chosen.items():
        children[row.parent if row.parent in chosen else None].append(candidate)
    order: list[int] = []
    waiting = list(children[None])
    while waiting:
        candidate = waiting.pop()
        order.append(candidate)
        waiting.extend(children[candidate])
    merit: dict[int, float] = {}
    for candidate in reversed(order):
        own: float | None = chosen[candidate].score
        known = [merit[child] for child in children[candidate]]
        merit[candidate] = max(known + ([] if own is None else [fitness.merit(own)]), default=float("-inf"))
    return _lines(chosen, {key: sorted(siblings, key=lambda c: (-merit[c], c)) for key, siblings in children.items()})


def _lines(chosen: Mapping[int, CompletedCandidate], children: Mapping[int | None, Sequence[int]]) -> dict[int, Node]:
    nodes: dict[int, Node] = {}
    used = 0
    waiting = [(candidate, 0) for candidate in reversed(children.get(None, ()))]
    fresh = True
    while waiting:
        candidate, depth = waiting.pop()
        used += not fresh
        nodes[candidate] = Node(chosen[candidate], depth, float(used))
        below = children.get(candidate, ())
        waiting.extend((child, depth + 1) for child in reversed(below))
        fresh = bool(below)
    return nodes


def _best_with_ancestors(facts: Facts) -> dict[int, CompletedCandidate]:
    known = {row.candidate: row for row in facts.account.candidates}
    chosen: dict[int, CompletedCandidate] = {}
    for row in facts.header.fitness.ranked(facts.account.candidates)[:SHOWN]:
        at = row.candidate
        while at is not None and at in known and at not in chosen:
            chosen[at] = known[at]
            at = known[at].parent
    return chosen


def _at(node: Node) -> tuple[float, float]:
    return PAD + COLUMN * node.depth, PAD + ROW * node.line


def _edge(parent: Node, child: Node, best: set[int]) -> Markup:
    (x1, y1), (x2, y2) = _at(parent), _at(child)
    start, turn = min(x1 + 10 + LETTER * len(_label(parent.row)), x2 - 16), x2 - 10
    return tag(
        "path",
        d=f"M{start:.0f} {y1:.0f} L{turn - 5:.0f} {y1:.0f} L{turn:.0f} {y2:.0f} L{x2 - 5:.0f} {y2:.0f}",
        class_="edge strong" if child.row.candidate in best else "edge",
    )


def _label(row: CompletedCandidate) -> str:
    return f"{'–' if row.score is None else formatting.score(row.score)} #{row.candidate}"


def _mark(node: Node, best: set[int]) -> Markup:
    x, y = _at(node)
    strong = " strong" if node.row.candidate in best else ""
    score, number = _label(node.row).split(" ")
    return tag(
        "g",
        tag("title", describe(node.row)),
        tag("circle", cx=x, cy=y, r=3.5, class_=f"node{strong}"),
        tag("text", f"{score} ", tag("tspan", number, class_="faint"), x=x + 7, y=y + 4, class_=f"name{strong}"),
    )
