"""What every page has around its content: the head, the names of the run and of its other pages. Pure."""

from collections.abc import Sequence
from urllib.parse import quote, urlencode

from pace_async.report.islands import Link
from pace_async.report.markup import Content, Markup, join, tag
from pace_async.report.parts import linked

PAGES = {
    "": "Run",
    "candidates": "Candidates",
    "tree": "Tree",
    "islands": "Islands",
    "metrics": "Metrics",
    "learner": "Learner",
    "spend": "Spend and faults",
    "machines": "Machines",
    "inbox": "Inbox",
}
"""The pages of a run, by the last part of the address."""
COMPARE = "compare"
"""The page of several runs."""
RUNS = "runs"
"""The page of all runs."""


def address(run: str, page: str = "", candidate: int | None = None) -> str:
    """The address of a page of a run, or of one candidate."""
    if candidate is not None:
        return f"/run/{quote(run, safe='')}/candidate/{candidate}"
    return f"/run/{quote(run, safe='')}" + (f"/{page}" if page else "")


def linking(run: str) -> Link:
    """Gives the number of a candidate of the run as a link to its page."""

    def link(number: int, mark: Markup | None = None) -> Content:
        return linked(f"#{number}" if number else "seed", address(run, candidate=number), mark)

    return link


def axes(choices: Sequence[str], by: str, runs: Sequence[str] = ()) -> Markup:
    """Links to the same page over each axis, with the names of runs that its address has."""
    links: list[Markup] = []
    for axis in choices:
        query = urlencode([*(("run", name) for name in runs), ("by", axis)])
        label = "USD" if axis == "usd" else axis
        links.append(join([" ", tag("a", label, href=f"?{query}", aria_current="true" if axis == by else None)]))
    return tag("p", "Over ", *links, class_="sub choices")


def document(title: str, *body: Content, run: str | None = None, page: str | None = None, wide: bool = False) -> str:
    """A whole page. `page` is the one of PAGES, or COMPARE or RUNS, that is marked as the present one. It is renewed
    after a commit of its run, or of any where it shows several."""
    head = join(
        [
            Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
            tag("title", f"{title} · pace"),
            Markup('<link rel="icon" href="data:,"><link rel="stylesheet" href="/assets/style.css">'),
            Markup('<script src="/assets/live.js" defer></script>'),
            Markup('<script src="/assets/tree.js" defer></script>') if page == "tree" else Markup(),
        ]
    )
    content = tag("main", *body, id="content", tabindex="-1")
    live = address(run, "events") if run is not None else "/events" if page in (COMPARE, RUNS) else None
    whole = tag("body", _top(run, page), content, class_="wide-page" if wide else None, data_live=live)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>{whole}</html>\n'


def _top(run: str | None, page: str | None) -> Markup:
    links = [tag("a", "All runs", href="/", aria_current="page" if page == RUNS else None)]
    if run is None:
        links.append(tag("a", "Comparison", href="/compare", aria_current="page" if page == COMPARE else None))
    if run is not None:
        links += [
            tag("a", name, href=address(run, part), aria_current="page" if part == page else None)
            for part, name in PAGES.items()
        ]
    skip = tag("a", "Skip to the content", href="#content", class_="skip")
    live = tag("span", "", id="live", role="status")
    run_name = tag("b", run, class_="named") if run is not None and page != "" else None
    return tag("header", skip, run_name, tag("nav", *links, aria_label="Pages"), live)


def problem(sentence: str) -> str:
    """A page that says why there is nothing to see."""
    return document("Nothing to see", tag("h1", "Nothing to see here"), tag("p", sentence))
