"""Runs of one task side by side: curves with bands over seeds, and differences with their intervals. The address
names the runs. Without any, all that the server shows are compared if they have one task."""

from collections.abc import Mapping, Sequence

from pace_async.errors import UsageError
from pace_async.observe import formatting
from pace_async.report.compared_curves import curves
from pace_async.report.compared_runs import compared_run, refuse_unless_comparable
from pace_async.report.comparison import Arm, ComparedRun, Estimate, arms_of, common, difference
from pace_async.report.markup import Content, Markup, tag
from pace_async.report.parts import card, scrolling, table
from pace_async.web.runs import OpenRun
from pace_async.web.shell import COMPARE, address, document

TITLE = "Comparison of runs"


def comparison_page(runs: Mapping[str, OpenRun], asked: Sequence[str]) -> str:
    """The page for the runs named `asked`. Raises UsageError for one that the server does not show."""
    unknown = next((name for name in asked if name not in runs), None)
    if unknown is not None:
        raise UsageError(f"This server shows no run {unknown!r}.")
    chosen = list(dict.fromkeys(asked)) or list(runs)
    form = _form(runs, chosen)
    try:
        found = [_compared(name, runs[name]) for name in chosen]
        if found:
            refuse_unless_comparable(found)
    except UsageError as error:
        return _page(tag("h1", TITLE), tag("p", str(error), class_="alert" if asked else "sub"), form)
    if not found:
        return _page(tag("h1", TITLE), tag("p", "There is no run yet.", class_="sub"))
    arms, candidates = arms_of(found), common(found)
    return _page(
        tag("h1", f"{found[0].task}: {formatting.count(len(found), 'run')}"),
        tag("p", _caption(arms, candidates, found), class_="sub"),
        card(curves(arms, candidates)),
        tag("h2", "Arms"),
        scrolling("Arms", table(_arms(arms, candidates), "")),
        tag("h2", "Runs"),
        scrolling("Runs", table([_row(arm, run, candidates) for arm in arms for run in arm.runs], "")),
        tag("h2", "Choose runs"),
        form,
    )


def _page(*body: Content) -> str:
    return document(TITLE, *body, page=COMPARE)


def _compared(name: str, run: OpenRun) -> ComparedRun:
    return run.answer("compared", lambda reader: compared_run(reader, name)).value


def _caption(arms: Sequence[Arm], candidates: int, runs: Sequence[ComparedRun]) -> str:
    notes = [
        f"Best scores after {formatting.count(candidates, 'candidate')}, which every run has.",
        "Runs that differ only in the seed are one arm.",
    ]
    if any(len(arm.runs) > 1 for arm in arms):
        notes.append("Strong lines are means, thin lines runs, bands 95 % intervals of the mean.")
    if len({run.task_digest for run in runs}) > 1:
        notes.append("The evaluators of these runs differ, so their scores may not be comparable.")
    return " ".join(notes)


def _arms(arms: Sequence[Arm], candidates: int) -> list[dict[str, Content]]:
    """A row for each arm. The difference is to the first arm."""
    rows: list[dict[str, Content]] = []
    for number, arm in enumerate(arms):
        mean, against = arm.mean(candidates), difference(arm, arms[0], candidates) if number else None
        row: dict[str, Content] = {"arm": arm.name, "seeds": len(arm.runs), "mean": _value(mean), "95 %": _range(mean)}
        if len(arms) > 1:
            row |= {f"minus {arms[0].name}": _value(against), "95 % of it": _range(against)}
            row["settings"] = ", ".join(f"{name}={value}" for name, value in arm.settings.items()) or "–"
        rows.append(row)
    return rows


def _row(arm: Arm, run: ComparedRun, candidates: int) -> dict[str, Content]:
    best, then = run.best_after(run.candidates), run.best_after(candidates)
    return {
        "arm": arm.name,
        "run": tag("a", run.run, href=address(run.run), class_="term"),
        "seed": run.seed,
        "state": formatting.STATES.get(run.state, run.state),
        "candidates": f"{run.candidates:,}",
        "score": "–" if best is None else formatting.score(best),
        f"after {candidates:,}": "–" if then is None else formatting.score(then),
        "USD": f"{run.spend_usd:,.2f}",
    }


def _value(found: Estimate | None) -> Markup:
    return tag("span", "–" if found is None else f"{found.value:.6g}", class_="term")


def _range(found: Estimate | None) -> Markup:
    said = "–" if found is None or found.low is None else f"{found.low:.6g} to {found.high:.6g}"
    return tag("span", said, class_="term")


def _form(runs: Mapping[str, OpenRun], chosen: Sequence[str]) -> Markup:
    """A box for each run of the server."""
    boxes = [
        tag(
            "label",
            tag("input", type="checkbox", name="run", value=name, checked="" if name in chosen else None),
            f" {name}",
        )
        for name in runs
    ]
    return tag("form", *boxes, tag("button", "Compare"), action="/compare")
