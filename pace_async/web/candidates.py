"""The table of candidates: sorted and filtered by the address, and the same rows as CSV. Pure."""

import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from pace_async.observe import formatting
from pace_async.population.reading.browse import COLUMNS, Page, Selection
from pace_async.report.markup import Markup, join, tag
from pace_async.report.parts import scrolling
from pace_async.report.rows import csv_line
from pace_async.web.shell import address, document

ON_A_PAGE = 100
SHOWN = ("candidate", "score", "outcome", "experiment", "parent", "island", "staleness", "cost_usd", "at")
"""Columns that are shown unless the address names others."""
_TEXT = ("outcome", "experiment", "idea", "mechanism", "lease_state")


@dataclass(frozen=True, slots=True)
class View:
    """What the address asks for. `page` counts from 1."""

    chosen: Selection
    columns: tuple[str, ...]
    page: int

    @property
    def first(self) -> int:
        return (self.page - 1) * ON_A_PAGE

    def query(self, **changed: object) -> str:
        """The address's query with these values changed."""
        values: dict[str, object] = {
            "where": self.chosen.where,
            "sort": self.chosen.order,
            "down": int(self.chosen.descending),
            "column": () if self.columns == SHOWN else self.columns,
            "page": self.page,
        }
        parameters = {name: value for name, value in (values | changed).items() if value != ""}
        return "?" + urlencode(parameters, doseq=True)


def view_of(query: QueryParams) -> View:
    """The view that an address names. What it does not say, or says wrongly, is the default."""
    page = query.get("page", "")
    columns = tuple(name for name in COLUMNS if name in query.getlist("column"))
    order = query.get("sort", "candidate")
    return View(
        Selection(
            query.get("where", "").strip(), order if order in COLUMNS else "candidate", query.get("down", "1") != "0"
        ),
        columns or SHOWN,
        int(page) if page.isascii() and page.isdigit() and 0 < len(page) < 8 and int(page) > 0 else 1,
    )


def candidates_page(name: str, view: View, page: Page, refused: str = "") -> str:
    """A page of the table. `refused` is why the condition could not be used, in lower case."""
    alert = tag("p", refusal(refused), role="alert", class_="alert") if refused else Markup()
    last = max(1, -(-page.found // ON_A_PAGE))
    count = f"{formatting.count(page.found, 'candidate')}, page {view.page:,} of {last:,}"
    return document(
        f"{name}: candidates",
        tag("h1", "Candidates"),
        _form(view),
        alert,
        tag("p", count, _turns(view, last), class_="sub"),
        scrolling("Candidates", _rows(name, view, page)),
        tag("p", tag("a", "These candidates as CSV", href=address(name, "candidates.csv") + view.query(page=""))),
        run=name,
        page="candidates",
        wide=True,
    )


def refusal(reason: str) -> str:
    """The sentence about a condition that cannot be used. `reason` is in lower case."""
    return f"That condition cannot be used: {reason.rstrip('.')}."


def _form(view: View) -> Markup:
    where = tag("input", type="search", id="where", name="where", value=view.chosen.where, placeholder="score > 2.5")
    boxes = [
        tag(
            "label",
            tag("input", type="checkbox", name="column", value=name, checked="" if name in view.columns else None),
            name,
        )
        for name in COLUMNS
    ]
    return tag(
        "form",
        tag("label", "Condition in SQL", for_="where"),
        where,
        tag("input", type="hidden", name="sort", value=view.chosen.order),
        tag("input", type="hidden", name="down", value=int(view.chosen.descending)),
        tag("button", "Show", type="submit"),
        tag("details", tag("summary", "Columns"), *boxes),
        tag(
            "p", "For instance: score > 2.5 and island = 1 · experiment like '%radius%' · outcome <> 'ok'", class_="sub"
        ),
        role="search",
    )


def _turns(view: View, last: int) -> Markup:
    links = [
        tag("a", word, href=view.query(page=number))
        for word, number in (("Page before", view.page - 1), ("Next page", view.page + 1))
        if 1 <= number <= last
    ]
    return join([Markup(" · "), *[join([link, " "]) for link in links]]) if links else Markup()


def _rows(name: str, view: View, page: Page) -> Markup:
    head = tag("tr", *(_heading(view, column) for column in view.columns))
    body = [tag("tr", *(_cell(name, column, row[column]) for column in view.columns)) for row in page.rows]
    return tag("table", tag("thead", head), tag("tbody", *body))


def _heading(view: View, column: str) -> Markup:
    here = view.chosen.order == column
    down = not view.chosen.descending if here else column not in _TEXT
    order = ("descending" if view.chosen.descending else "ascending") if here else None
    sign = (" ▾" if view.chosen.descending else " ▴") if here else ""
    link = tag("a", column.replace("_", " ") + sign, href=view.query(sort=column, down=int(down), page=1))
    return tag("th", link, scope="col", aria_sort=order, class_=None if column in _TEXT else "number")


def _cell(name: str, column: str, value: Any) -> Markup:
    if column in ("candidate", "parent") and value is not None:
        return tag("td", tag("a", value, href=address(name, candidate=int(value))), class_="number")
    if column in _TEXT:
        text = "" if value is None else str(value)
        return tag("td", formatting.OUTCOMES.get(text, text) if column == "outcome" else text)
    return tag("td", _number(column, value), class_="number")


def _number(column: str, value: Any) -> str:
    if value is None:
        return "unknown" if column == "cost_usd" else "–"
    if column == "at":
        return moment(value)
    if column == "cost_usd":
        return f"{value:.4f}"
    return formatting.score(value) if isinstance(value, float) else str(value)


def moment(seconds: float) -> str:
    """A moment in UTC, or the bare number that a clock gave which was wrong beyond any calendar."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
    except (OverflowError, OSError, ValueError):
        return f"{seconds:g}"


def as_csv(view: View, page: Page) -> str:
    """The rows with the columns of the view, every number in full (`rows.csv_line`)."""
    lines = [csv_line(view.columns), *(csv_line(row[column] for column in view.columns) for row in page.rows)]
    return "".join(lines)
