"""The report of a run: one self-contained HTML file without scripts.

Invariant: the page has no script and makes no request, and its Content-Security-Policy forbids both. A candidate's text
therefore stays text, and `markup` escapes it as well. The page supports light and dark mode.
"""

import base64
import hashlib
import os
from importlib.resources import files
from pathlib import Path

from pace_async.errors import UsageError
from pace_async.report import sections
from pace_async.report.facts import Facts
from pace_async.report.markup import Markup, tag

MARK = "<!doctype html>\n<!-- pace report -->\n"


def page(facts: Facts) -> str:
    """The whole file as text."""
    style = files("pace_async.report").joinpath("style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = (
        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
    )
    title = tag("title", f"{facts.header.name}: a run of {facts.header.task}")
    body = Markup("".join(f"{section}\n" for section in _sections(facts)))
    html = f'<html lang="en">\n<head>\n{head}{title}\n<style>{style}</style>\n</head>\n<body>\n{body}</body>\n</html>\n'
    return MARK + html


def _sections(facts: Facts) -> list[Markup]:
    return [
        *sections.top(facts),
        tag("h2", "Best score so far"),
        sections.curve(facts),
        tag("h2", "How the best program came to be"),
        sections.lineage(facts),
        tag("h2", "Tree of lineage"),
        *sections.tree_of_lineage(facts),
        tag("h2", "Learning"),
        sections.learner(facts),
        tag("h2", "Outcomes, faults and spend"),
        tag("div", sections.outcomes(facts), sections.faults(facts), class_="pair"),
        sections.spend(facts),
        tag("h2", "The best program against the seed program"),
        sections.against_seed(facts),
        sections.foot(facts),
    ]


def write_page(facts: Facts, target: Path, *, force: bool) -> None:
    """Write the page. Raises UsageError if `target` is another kind of file or cannot be written."""
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if not force and target.exists() and not _is_report(target):
            raise UsageError(f"{target} is there already and is no report: name another file, or add --force.")
        try:
            draft.write_text(page(facts), encoding="utf-8")
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot write {target}: {error.strerror}.") from None


def _is_report(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(MARK)) == MARK.encode()
