"""The report of a run: one self-contained HTML file without scripts.

Invariant: the page has no script and makes no request, and its Content-Security-Policy forbids both. A candidate's text
therefore stays text, and `markup` escapes it as well. The page supports light and dark mode.
"""

import base64
import hashlib
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from pace_async.errors import UsageError
from pace_async.observe import formatting
from pace_async.observe.few_scores import few_scores
from pace_async.observe.standing import to_best_known, tried_again
from pace_async.registry.advisors import advisor_of
from pace_async.report import learning, progress
from pace_async.report.difference import counted, difference
from pace_async.report.facts import Facts, Row
from pace_async.report.markup import Content, Markup, joined, tag
from pace_async.report.tree import tree

MARK = "<!doctype html>\n<!-- pace report -->\n"
_TERMS = ("where", "kind")
"""Columns of short names of our own, which are never broken."""
_NUMBERS = ("calls", "tokens in", "tokens out", "seconds", "USD", "times", "candidates", "score")


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
        *_top(facts),
        tag("h2", "Best score so far"),
        _curve(facts),
        tag("h2", "How the best program came to be"),
        _lineage(facts),
        tag("h2", "Tree of lineage"),
        *_tree(facts),
        tag("h2", "Learning"),
        _learning(facts),
        tag("h2", "Outcomes, faults and spend"),
        tag("div", _outcomes(facts), _faults(facts), class_="pair"),
        _spend(facts),
        tag("h2", "The best program against the seed program"),
        _difference(facts),
        _foot(facts),
    ]


def _top(facts: Facts) -> list[Markup]:
    header, status, account = facts.header, facts.status, facts.account
    why = formatting.reason(status["state"], status["reason"] or "")
    state = formatting.STATES.get(status["state"], status["state"]) + (f": {why}" if why else "")
    seed = next((row.score for row in facts.account.candidates if row.candidate == 0), None)
    best = status["best_score"]
    tiles = [
        ("–" if best is None else formatting.score(best), f"best score ({header.direction}d)"),
        *_standing(facts),
        ("–" if seed is None else formatting.score(seed), "seed program"),
        (f"{status['candidates']:,}", "candidates"),
        (f"{status['groups_trained']} + {status['groups_skipped']}", "groups trained + skipped"),
        (f"{_worst(status)} of {header.max_staleness}", "worst staleness, bound"),
        (formatting.usd(status["spend_usd"]), f"spent{formatting.parts_of_spend(status['spend_by_role'])}"),
        (formatting.duration(account.driven), "of search, pauses between processes left out"),
    ]
    shown = [tag("div", tag("b", value), tag("span", name), class_="tile") for value, name in tiles]
    learns = "" if advisor_of(header.advisor).served else " (it learns nothing)"
    advisor = f"advisor {header.advisor} on {header.engine}{learns}"
    models = f"{advisor}, implementer {header.implementer}, sandbox {header.sandbox}"
    trust = f" · {formatting.SHARED_TRUST}: {formatting.SHARED_MEANS}" if header.shares_trust else ""
    setting = (
        f"objective {header.objective}, {header.threads} threads, groups of {header.group_size}, seed {header.seed}"
    )
    few = few_scores(status["candidates"], status["scored"], status["causes"])
    return [
        tag("h1", header.name),
        tag("p", f"{header.task} · {state} · {models} · {setting}{trust}", class_="sub"),
        tag("div", *shown, class_="tiles"),
        *([tag("p", few.sentence)] if few is not None else []),
    ]


def _worst(status: Row) -> str:
    """The greatest staleness of the trained rollouts, or a dash if there are none."""
    return str(status["max_trained_staleness"]) if status["trained"] else "–"


def _standing(facts: Facts) -> list[tuple[str, str]]:
    """The best score's value on fresh instances, and its relation to the best known."""
    if facts.best is None:
        return []
    tiles: list[tuple[str, str]] = []
    if facts.best["fresh_score"] is not None:
        tiles.append(
            (
                formatting.score(facts.best["fresh_score"]),
                f"the best {tried_again(shares_trust=facts.header.shares_trust)}",
            )
        )
    if facts.best_known is not None:
        said = to_best_known(facts.best["score"], facts.best_known, facts.header.direction, named=False)
        tiles.append((formatting.score(facts.best_known), f"best known{f': {said}' if said else ''}"))
    return tiles


def _curve(facts: Facts) -> Markup:
    picture, beyond = progress.curve(facts)
    notes = [
        "Dots: scores. Red ticks: candidates without one. Rings: the best program and its ancestors.",
        f"{formatting.count(beyond, 'score')} far worse than the rest on the edge." if beyond else "",
        "Hover over a mark for what was tried.",
    ]
    return _card(picture, tag("p", " ".join(note for note in notes if note), class_="sub"))


def _lineage(facts: Facts) -> Markup:
    rows = [
        {
            "candidate": "seed" if row.candidate == 0 else f"#{row.candidate}",
            "score": "–" if row.score is None else formatting.score(row.score),
            "island": row.island,
            "idea": row.idea,
            "experiment": row.experiment,
        }
        for row in facts.lineage
    ]
    return _card(_table(rows, "Nothing has a score yet."))


def _tree(facts: Facts) -> list[Markup]:
    if not facts.lineage:
        return [_card(tag("p", "Nothing has a score yet.", class_="sub"))]
    picture, caption = tree(facts)
    return [tag("p", caption, class_="sub"), tag("div", picture, class_="card wide")]


def _learning(facts: Facts) -> Markup:
    if not facts.account.groups:
        return _card(tag("p", "No group has been trained.", class_="sub"))
    drawn = [("Staleness of what was trained, in updates; the line is the bound", learning.staleness(facts))]
    cards = [_card(tag("h3", title), picture) for title, picture in [*drawn, *learning.panels(facts)]]
    skipped = facts.status["groups_skipped"]
    note = f"Red ticks: {formatting.count(skipped, 'group')} skipped, in which nothing was learned." if skipped else ""
    if facts.status["rollbacks"]:
        note += f" The advisor {formatting.went_back(len(facts.status['rollbacks']))}: its answers could not be parsed."
    return joined([tag("p", note, class_="sub") if note else Markup(), tag("div", *cards, class_="pair")])


def _outcomes(facts: Facts) -> Markup:
    counts = Counter(row.outcome for row in facts.account.candidates if row.candidate > 0)
    rows = [
        {"outcome": formatting.OUTCOMES.get(name, name), "candidates": number} for name, number in counts.most_common()
    ]
    return _card(tag("h3", "What became of candidates"), _table(rows, "No candidate is complete yet."))


def _faults(facts: Facts) -> Markup:
    rows = [
        {"where": row.stage, "kind": row.kind, "times": row.times, "the last": row.detail}
        for row in facts.account.faults
    ]
    return _card(tag("h3", "Faults of services and the machine"), _table(rows, "None."))


def _spend(facts: Facts) -> Markup:
    rows = [
        {
            "role": row.role,
            "model": row.model,
            "calls": f"{row.calls:,}",
            "tokens in": f"{row.prompt_tokens or 0:,}",
            "tokens out": f"{row.completion_tokens or 0:,}",
            "seconds": f"{row.seconds or 0:,.1f}",
            "USD": f"{row.usd or 0:,.4f}",
        }
        for row in facts.account.spend
    ]
    return tag("div", _card(tag("h3", "Spend"), _table(rows, "Nothing was called yet.")), class_="after")


def _difference(facts: Facts) -> Markup:
    if facts.best is None or facts.seed_program is None:
        return _card(tag("p", "Nothing has a score yet.", class_="sub"))
    lines = difference(
        facts.seed_program, facts.best["program"], "seed program", f"candidate {facts.best['candidate']}"
    )
    if not lines:
        return _card(tag("p", "The best program is the seed program.", class_="sub"))
    added, removed = counted(lines)
    shown = [tag("span", line.text, class_=line.kind) for line in lines]
    caption = f"{formatting.count(added, 'line')} added, {formatting.count(removed, 'line')} removed."
    return joined([tag("p", caption, class_="sub"), tag("div", tag("pre", *shown), class_="card wide")])


def _foot(facts: Facts) -> Markup:
    began = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(facts.account.began))
    return tag(
        "footer", f"A run of pace that began on {began}. Everything here is in its population.db; see pace db sql."
    )


def _card(*content: Content) -> Markup:
    return tag("div", *content, class_="card")


def _table(rows: Sequence[Mapping[str, Content]], empty: str) -> Markup:
    if not rows:
        return tag("p", empty, class_="sub")
    head = tag("tr", *(tag("th", name, class_=_class(name)) for name in rows[0]))
    return tag("table", tag("thead", head), tag("tbody", *_lines(rows)))


def _lines(rows: Iterable[Mapping[str, Content]]) -> list[Markup]:
    return [tag("tr", *(tag("td", value, class_=_class(name)) for name, value in row.items())) for row in rows]


def _class(name: str) -> str | None:
    return "number" if name in _NUMBERS else "term" if name in _TERMS else None


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
