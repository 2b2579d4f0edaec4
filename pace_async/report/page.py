"""The report of a run: one self-contained HTML file.

Invariant: the page makes no request and runs one script of its own, which sorts and folds. Its Content-Security-Policy
allows this script by its hash and forbids every other. A candidate's text therefore stays text, and `markup` escapes it
as well. Without script the page is whole. It supports light and dark mode.
"""

import base64
import hashlib
from importlib.resources import files
from pathlib import Path

from pace_async.errors import UsageError
from pace_async.population.reading.money import Money
from pace_async.report import listing, sections
from pace_async.report.facts import Facts
from pace_async.report.fault_timeline import fault_timeline
from pace_async.report.front import front
from pace_async.report.islands import Link, islands
from pace_async.report.markup import Content, Markup, tag
from pace_async.report.metrics import metrics, names_of
from pace_async.report.notes import notes
from pace_async.report.rows import draft_of

MARK = "<!doctype html>\n<!-- pace report -->\n"


def page(facts: Facts) -> str:
    """The whole file as text."""
    style, script = _file("style.css"), _file("report.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = (
        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
    )
    title = tag("title", f"{facts.header.name}: a run of {facts.header.task}")
    body = Markup("".join(f"{section}\n" for section in _sections(facts)))
    end = f"<script>{script}</script>\n</body>\n</html>\n"
    return f'{MARK}<html lang="en">\n<head>\n{head}{title}\n<style>{style}</style>\n</head>\n<body>\n{body}{end}'


def _file(name: str) -> str:
    return files("pace_async.report").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _sections(facts: Facts) -> list[Markup]:
    numbers = {row.candidate for row in listing.listed_rows(facts)}

    def link(number: int, mark: Markup | None = None) -> Content:
        return listing.anchor(number, numbers, mark)

    parts: dict[str, tuple[str, list[Markup]]] = {
        "score": ("Best score so far", [sections.curve(facts)]),
        **(
            {"metrics": ("Metrics", [metrics(facts.measured, facts.status["candidates"])])}
            if names_of(facts.measured)
            else {}
        ),
        **({"front": ("Front", front_content)} if (front_content := front(facts.front, link)) else {}),
        "best": ("How the best program came to be", [sections.lineage(facts), listing.steps(facts)]),
        "tree": ("Tree of lineage", sections.tree_of_lineage(facts)),
        "candidates": ("Candidates", [listing.candidates(facts)]),
        **({"notes": ("Notes", written)} if (written := notes(facts.notes)) else {}),
        "islands": ("Islands", [islands(facts, facts.actions, link)]),
        "learning": ("Learning", [sections.learner(facts)]),
        "spend": (
            "Outcomes, faults and spend",
            [*(_money(facts, facts.money, link) if facts.money is not None else []), *sections.nodes(facts)],
        ),
        "program": ("The best program against the seed program", [sections.against_seed(facts)]),
        "again": ("To repeat this run", [sections.again(facts)]),
    }
    links = [tag("a", title, href=f"#{name}") for name, (title, _) in parts.items()]
    return [
        *sections.top(facts),
        tag("nav", *links, aria_label="Parts"),
        *[
            tag("details", tag("summary", tag("h2", title)), *content, id=name, class_="part", open="")
            for name, (title, content) in parts.items()
        ],
        sections.foot(facts),
    ]


def _money(facts: Facts, money: Money, link: Link) -> list[Markup]:
    when = fault_timeline(facts.timeline) if facts.timeline is not None else Markup()
    return [
        tag("div", sections.outcomes(money), sections.faults(money), class_="pair"),
        tag("div", tag("h3", "Faults over time"), when, class_="card after") if when else Markup(),
        sections.spend(money),
        sections.money_by_improvement(money, link),
    ]


def write_page(facts: Facts, target: Path, *, force: bool) -> None:
    """Write the page. Raises UsageError if `target` is another kind of file or cannot be written."""
    if not force:
        try:
            with target.open("rb") as file:
                force = file.read(len(MARK)) == MARK.encode()
        except FileNotFoundError:
            pass
        except OSError as error:
            raise UsageError(f"Cannot write {target}: {error.strerror}.") from None
    with draft_of(target, force=force, what=" and is not a report") as draft:
        draft.write_text(page(facts), encoding="utf-8")
