"""The page of one candidate: what was tried, what it gave, what was asked and answered, how it differs. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from pace_async.observe import formatting
from pace_async.programs.fileset import Program, changed_paths
from pace_async.report.difference import count_changes, difference
from pace_async.report.markup import Content, Markup, join, tag
from pace_async.report.parts import card, scrolling, table
from pace_async.report.syntax import coloured, line_of
from pace_async.web.shell import address, document

Row = Mapping[str, Any]
STRIP = 600.0
"""The width of a strip of tokens, in units of the drawing."""


def candidate_page(name: str, row: Row, parent: Row | None, best: Row | None) -> str:
    """`row` and `parent` are as `pace show` gives them. `best` is the run's best, None before the first score."""
    number = row["candidate"]
    title = "The seed program" if number == 0 else f"Candidate {number}"
    return document(
        f"{name}: {title}",
        tag("h1", title),
        tag("div", *_tiles(row), class_="tiles"),
        *_origin(name, row),
        *_outcome(row),
        *_compared(row, parent, "its parent"),
        *(_compared(row, best, "the best program") if best is not None and best["candidate"] != number else []),
        *_program(row, parent),
        *_calls_and_tries(name, row),
        run=name,
    )


def _tiles(row: Row) -> list[Markup]:
    score = "–" if row["score"] is None else formatting.score(row["score"])
    pairs = [
        (score, "score"),
        (formatting.OUTCOMES.get(row["outcome"], row["outcome"]), "outcome"),
        ("–" if row["reward"] is None else formatting.score(row["reward"]), "reward for the advisor"),
        ("–" if row["staleness"] is None else str(row["staleness"]), "staleness, updates"),
        ("–" if row["queue_seconds"] is None else f"{row['queue_seconds']:.2f} s", "wait for a slot"),
        ("unknown" if row["cost_usd"] is None else formatting.usd(row["cost_usd"]), "cost"),
    ]
    return [tag("div", tag("b", value), tag("span", label), class_="tile") for value, label in pairs]


def _origin(name: str, row: Row) -> list[Markup]:
    made_from: Content = "the task"
    if row["parent"] is not None:
        made_from = tag("a", f"candidate {row['parent']}", href=address(name, candidate=row["parent"]))
    pairs = [("Idea", row["idea"]), ("Experiment", row["experiment"]), ("Made from", made_from)]
    return [tag("dl", *[join([tag("dt", term), tag("dd", value)]) for term, value in pairs if value], class_="card")]


def _outcome(row: Row) -> list[Markup]:
    parts: list[Markup] = []
    if row["detail"]:
        parts += [tag("h2", "Why it ended so"), card(tag("pre", row["detail"]))]
    if row["feedback"]:
        parts += [tag("h2", "What the evaluator said"), card(tag("pre", row["feedback"]))]
    if row["practice"]:
        summary = {name: row["practice"][name] for name in ("outcome", "detail", "score", "seconds")}
        parts += [
            tag("h2", "In practice, which scores nothing"),
            card(table(_flat([{**summary, **row["practice"]["metrics"]}]), "None.")),
        ]
        parts += [card(tag("pre", row["practice"]["printed"]))] if row["practice"]["printed"] else []
    if row["metrics"]:
        rows = [{"metric": str(key), "value": str(value)} for key, value in row["metrics"].items()]
        parts += [tag("h2", "Metrics"), card(table(rows, "None."))]
    if row["curve"]:
        points = [{"step": str(step), "value": str(value)} for step, value in row["curve"]]
        by = "the trusted scorer" if row["reported_by"] == "scorer" else "its evaluation"
        parts += [tag("h2", f"What {by} reported"), card(table(points, "None."))]
    if row["fresh_scores"]:
        parts += [tag("h2", "Scores in further evaluations"), card(table(_flat(row["fresh_scores"]), "None."))]
    if row["cascade"]:
        parts += [tag("h2", "Stages before the evaluation"), card(table(_flat(row["cascade"]), "None."))]
    return parts


def _flat(rows: Sequence[Row]) -> list[dict[str, Content]]:
    return [
        {
            key.replace("_", " "): "unknown" if (key, value) == ("cost_usd", None) else _plain(value)
            for key, value in each.items()
        }
        for each in rows
    ]


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _compared(row: Row, other: Row | None, label: str) -> list[Markup]:
    if other is None or row["program"] is None or other["program"] is None:
        return []
    lines = difference(
        other["program"], row["program"], f"candidate {other['candidate']}", f"candidate {row['candidate']}"
    )
    heading = tag("h2", f"Against {label}")
    if not lines:
        return [heading, card(tag("p", "The two programs are equal.", class_="sub"))]
    added, removed = count_changes(lines)
    caption = f"{formatting.count(added, 'line')} added, {formatting.count(removed, 'line')} removed."
    listing = tag("pre", *[tag("span", line_of(line), class_=line.kind) for line in lines])
    box = scrolling(f"Difference to {label}", listing)
    return [heading, tag("p", caption, class_="sub"), box]


def _program(row: Row, parent: Row | None) -> list[Markup]:
    """The program. Of one of several files each, first those that differ from the parent's; the others are folded."""
    if row["program"] is None:
        return [card(tag("p", "No program was written.", class_="sub"))]
    program, heading = Program.of(row["program"]), tag("h2", "The program")
    if not program.is_set:
        return [heading, scrolling("Program", tag("pre", coloured(row["program"])))]
    boxes = {path: scrolling(path, tag("pre", coloured(text))) for path, text in program.files.items()}
    before = None if parent is None or parent["program"] is None else Program.of(parent["program"])
    changed = list(boxes) if before is None else changed_paths(before, program)
    parts = [part for path in changed if path in boxes for part in (tag("h3", path), boxes[path])]
    if removed_paths := ", ".join(path for path in changed if path not in boxes):
        parts.append(tag("p", f"Removed: {removed_paths}.", class_="sub"))
    same = [tag("details", tag("summary", path), box) for path, box in boxes.items() if path not in changed]
    return [heading, *parts, *([tag("h3", "As its parent has them"), *same] if same else [])]


def _calls_and_tries(name: str, row: Row) -> list[Markup]:
    parts: list[Markup] = []
    if row["calls"] or row["implementer_calls"]:
        link = tag("a", "The prompts, word for word", href=address(name, candidate=row["candidate"]) + "/prompts")
        parts.append(tag("p", link))
    if row["calls"]:
        parts.append(tag("h2", "What the advisor answered"))
        parts += [_call(call, _update(row)) for call in row["calls"]]
    if row["tries"]:
        parts.append(tag("h2", "Tries of the implementer"))
        parts += [card(tag("h3", f"Try {at}"), tag("pre", _words(each))) for at, each in enumerate(row["tries"], 1)]
    paid = [*row["advisor_calls"], *row["implementer_calls"]]
    if paid:
        parts += [tag("h2", "Paid calls"), scrolling("Paid calls", table(_flat(paid), "None."))]
    return parts


def _update(row: Row) -> int | None:
    """The learner's version when the candidate's group was shipped, None before that."""
    if row["staleness"] is None or row["policy_version"] is None:
        return None
    return row["policy_version"] + row["staleness"]


def _call(call: Row, update: int | None) -> Markup:
    tokens = f"{call['prompt_tokens']:,} tokens asked, {call['completion_tokens']:,} answered"
    spans = [(version, start, end) for version, start, end in call["versions"] if end > start]
    return card(
        tag("h3", call["purpose"]),
        tag("pre", call["text"]),
        _ages(spans, update) if spans else None,
        tag("p", tokens, class_="sub"),
    )


def _ages(spans: Sequence[tuple[int, int, int]], update: int | None) -> Markup:
    """A strip of the answer's tokens: each part by the version that sampled it, darker the older the version was."""
    whole = max(end for _, _, end in spans)
    parts: list[Markup] = []
    captions: list[str] = []
    for version, start, end in spans:
        age = None if update is None else update - version
        stale = "" if age is None else f", {formatting.count(age, 'update')} old when trained on"
        captions.append(f"tokens {start + 1:,} to {end:,} by version {version}{stale}")
        left, wide = STRIP * start / whole, STRIP * (end - start) / whole
        parts.append(
            tag("rect", tag("title", captions[-1]), x=left, y=0, width=wide, height=8, class_=f"age{min(age or 0, 4)}")
        )
    view = f"0 0 {STRIP:g} 8"
    strip = tag("svg", *parts, viewBox=view, role="img", aria_label="; ".join(captions), class_="strip")
    return join([strip, tag("p", " · ".join(captions), class_="sub")])


def _words(row: Row) -> str:
    return "\n".join(f"{key}: {value}" for key, value in row.items() if value not in (None, "", [], {}))


def prompts_page(name: str, number: int, texts: Sequence[tuple[str, str]]) -> str:
    """What the models were asked for one candidate, and what they answered: each text under its heading."""
    cards = [card(tag("h2", heading), tag("pre", text)) for heading, text in texts]
    return document(
        f"{name}: prompts of candidate {number}",
        tag("h1", f"Prompts of candidate {number}"),
        tag("p", tag("a", f"Candidate {number}", href=address(name, candidate=number))),
        *(cards or [card(tag("p", "No model was asked.", class_="sub"))]),
        run=name,
    )
