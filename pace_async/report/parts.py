"""Cards and tables, of which every page is made. Pure."""

from collections.abc import Mapping, Sequence

from pace_async.report.markup import Content, Markup, tag

_TERMS = ("where", "kind")
"""Columns of short names of our own, which are never broken."""
_NUMBERS = (
    "calls",
    "attempts",
    "lost",
    "waited",
    "tokens in",
    "tokens out",
    "seconds",
    "USD",
    "times",
    "candidates",
    "score",
)


def card(*content: Content) -> Markup:
    """A box with a border."""
    return tag("div", *content, class_="card")


def scrolling(name: str, *content: Content, class_: str = "card wide") -> Markup:
    """A box whose content may be wider than the page. It can be reached by keyboard, and screen readers read out its
    `name`."""
    return tag("div", *content, class_=class_, tabindex="0", role="region", aria_label=name)


def table(rows: Sequence[Mapping[str, Content]], empty: str) -> Markup:
    """Rows under the names of the first row's columns, or the sentence `empty` if there are none."""
    if not rows:
        return tag("p", empty, class_="sub")
    head = tag("tr", *(tag("th", name, class_=_class(name)) for name in rows[0]))
    body = [tag("tr", *(tag("td", value, class_=_class(name)) for name, value in row.items())) for row in rows]
    return tag("table", tag("thead", head), tag("tbody", *body))


def _class(name: str) -> str | None:
    return "number" if name in _NUMBERS else "term" if name in _TERMS else None


def linked(label: str, address: str, mark: Markup | None = None) -> Markup:
    """A link with these words, or with a drawing's mark of what they name."""
    return tag("a", label, href=address) if mark is None else tag("a", mark, href=address, aria_label=label)
