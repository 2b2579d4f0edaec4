"""The candidates of a report as one table, and each step to the best program as a difference. Pure."""

from collections.abc import Sequence
from itertools import pairwise

from pace_async.observe import formatting
from pace_async.population.reading.account import CompletedCandidate
from pace_async.report.difference import count_changes, difference
from pace_async.report.facts import Facts
from pace_async.report.markup import Content, Markup, join, tag
from pace_async.report.parts import linked, scrolling
from pace_async.report.syntax import line_of

LISTED = 1_000
"""Candidates that the table shows: of more, the best."""
LONGEST = 400
"""Lines of one step's difference that are shown."""
_NUMBERS = ("candidate", "score", "parent", "island")


def candidates(facts: Facts) -> Markup:
    """Every candidate in the order of completion, or the best of a long run."""
    every, rows = facts.account.candidates, listed_rows(facts)
    caption = (
        f"The {len(rows):,} best of {len(every):,}."
        if len(rows) < len(every)
        else "All of them, in the order in which they were complete."
    )
    if not rows:
        return tag("p", "No candidate is complete yet.", class_="sub")
    numbers = {row.candidate for row in rows}
    names = ("candidate", "score", "outcome", "parent", "island", "experiment")
    head = tag("tr", *(tag("th", name, class_="number" if name in _NUMBERS else None) for name in names))
    body = [_row(row, numbers) for row in rows]
    table = tag("table", tag("thead", head), tag("tbody", *body), class_="sortable")
    return join([tag("p", caption, class_="sub"), scrolling("Candidates", table)])


def listed_rows(facts: Facts) -> Sequence[CompletedCandidate]:
    """The candidates that have a row."""
    if len(facts.account.candidates) <= LISTED:
        return facts.account.candidates
    return facts.header.fitness.ranked(facts.account.candidates)[:LISTED]


def _row(row: CompletedCandidate, listed_candidates: set[int]) -> Markup:
    cells: tuple[Content, ...] = (
        row.candidate,
        "–" if row.score is None else formatting.score(row.score),
        formatting.OUTCOMES.get(row.outcome, row.outcome),
        anchor(row.parent, listed_candidates),
        row.island,
        row.experiment,
    )
    numbers = (True, True, False, True, True, False)
    tags = [tag("td", cell, class_="number" if right else None) for cell, right in zip(cells, numbers, strict=True)]
    return tag("tr", *tags, id=f"c{row.candidate}")


def anchor(candidate: int | None, listed_candidates: set[int], mark: Markup | None = None) -> Content:
    """The number of a candidate, or its mark on a drawing, as a link to its row if it has one."""
    if candidate is None:
        return "–"
    label = f"#{candidate}"
    return linked(label, f"#c{candidate}", mark) if candidate in listed_candidates else mark or label


def steps(facts: Facts) -> Markup:
    """What each ancestor of the best program changed, each in a part that opens."""
    parts: list[Markup] = []
    line = facts.lineage
    for before, row in pairwise(line):
        old, new = facts.programs.get(before.candidate), facts.programs.get(row.candidate)
        if old is None or new is None:
            continue
        lines = difference(old, new, f"candidate {before.candidate}", f"candidate {row.candidate}")
        added, removed = count_changes(lines)
        score = "–" if row.score is None else formatting.score(row.score)
        summary = f"#{row.candidate}, score {score}: {formatting.count(added, 'line')} added, {removed} removed"
        cut = [tag("span", f"… and {len(lines) - LONGEST:,} more", class_="note")] if len(lines) > LONGEST else []
        excerpt = tag(
            "pre", *[tag("span", line_of(diff_line), class_=diff_line.kind) for diff_line in lines[:LONGEST]], *cut
        )
        parts.append(tag("details", tag("summary", summary), scrolling(f"Step to candidate {row.candidate}", excerpt)))
    return join(parts)
