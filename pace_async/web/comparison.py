"""Runs of one task side by side: curves with bands over seeds, and differences with their intervals. The address
names the runs. Without any, all that the server shows are compared if they have one task."""

from collections.abc import Mapping, Sequence
from functools import partial

from pace_async.errors import UsageError
from pace_async.observe import formatting
from pace_async.observe.columns import on_one_line
from pace_async.observe.spending import cell_usd
from pace_async.report.compared import Comparison, in_words, share_in_words
from pace_async.report.compared_curves import curves
from pace_async.report.compared_runs import compared_run, refuse_unless_comparable
from pace_async.report.comparison import CHOICES, Arm, By, ComparedRun
from pace_async.report.comparison_text import arms, diagnostics, fronts_in_words
from pace_async.report.markup import Content, Markup, tag
from pace_async.report.parts import card, scrolling, table
from pace_async.web.runs import OpenRun
from pace_async.web.shell import COMPARE, address, axes, document

TITLE = "Comparison of runs"
_LONG = ("settings", "run")


def comparison_page(runs: Mapping[str, OpenRun], names: Sequence[str], by: By = "candidates") -> str:
    """The page for the runs of these `names`. Raises UsageError for one that the server does not show."""
    unknown = next((name for name in names if name not in runs), None)
    if unknown is not None:
        raise UsageError(f"This server shows no run {unknown!r}.")
    chosen = list(dict.fromkeys(names)) or list(runs)
    form = _form(runs, chosen)
    try:
        compared_runs = [
            runs[name].answer(("compared", by), partial(compared_run, name=name, by=by)).value for name in chosen
        ]
        if compared_runs:
            refuse_unless_comparable(compared_runs, by)
    except UsageError as error:
        over = axes(CHOICES, by, names) if by != "candidates" else None
        return _page(tag("h1", TITLE), tag("p", str(error), class_="alert" if names else "sub"), over, form)
    if not compared_runs:
        return _page(tag("h1", TITLE), tag("p", "There is no run yet.", class_="sub"))
    comparison = Comparison.of(compared_runs, by)
    paragraphs = [tag("p", sentence) for sentence in comparison.verdicts]
    compared, learned = arms(comparison), diagnostics(comparison)
    return _page(
        tag("h1", f"{compared_runs[0].task}: {formatting.count(len(compared_runs), 'run')}"),
        tag("p", _caption(comparison), class_="sub"),
        axes(CHOICES, by, names),
        card(curves(comparison.arms, comparison.place, by)),
        *([tag("h2", "Arms"), *paragraphs, scrolling("Arms", table(_plain(compared), ""))] if compared else []),
        *_fronts(comparison),
        tag("h2", "Runs"),
        scrolling("Runs", table([_row(comparison, arm, run) for arm, run in comparison.every], "")),
        *([tag("h2", "Learning"), scrolling("Learning", table(_plain(learned), ""))] if learned else []),
        tag("h2", "Choose runs"),
        form,
    )


def _page(*body: Content) -> str:
    return document(TITLE, *body, page=COMPARE)


def _caption(comparison: Comparison) -> str:
    notes = [
        f"Best scores after {in_words(comparison.place, comparison.by)}, which every run has.",
        "Runs that differ only in the seed are one arm.",
    ]
    if any(len(arm.runs) > 1 for arm in comparison.arms):
        notes.append("Strong lines are means, thin lines runs, bands 95 % intervals of the mean.")
    return " ".join(notes)


def _fronts(comparison: Comparison) -> list[Markup]:
    """The arms by the hypervolumes of their fronts."""
    if (fronts := comparison.fronts) is None:
        return []
    paragraphs = [tag("p", sentence) for sentence in (fronts_in_words(comparison), *fronts.told_apart)]
    rows = arms(fronts)
    return [tag("h2", "Fronts"), *paragraphs, *([scrolling("Fronts", table(_plain(rows), ""))] if rows else [])]


def _row(comparison: Comparison, arm: Arm, run: ComparedRun) -> dict[str, Content]:
    place, by, first = comparison.place, comparison.by, comparison.arms[0]
    row = comparison.row(arm, run)
    fresh = {"at fresh seeds": _score(row["fresh_score"])} if comparison.has_fresh else {}
    as_good = {f"as good as {first.name} after": share_in_words(row["reaches_first"], place, by) or "–"}
    return {
        "arm": arm.name,
        "run": tag("a", run.run, href=address(run.run), class_="term"),
        "seed": run.seed,
        "state": formatting.STATES.get(run.state, run.state),
        "candidates": f"{run.candidates:,}",
        "score": _score(row["best_score"]),
        f"after {in_words(place, by)}": _score(row["best_compared"]),
        **fresh,
        **({"hypervolume": _score(row["hypervolume"])} if comparison.reference else {}),
        **(as_good if len(comparison.every) > 1 else {}),
        "USD": cell_usd(run.spend_known_usd, unpriced=run.spend_usd is None, digits=2),
    }


def _plain(rows: Sequence[Mapping[str, object]]) -> list[dict[str, Content]]:
    """The rows of a text as those of a page. Only settings and names of runs may be broken."""
    return [
        {
            name: "–"
            if value is None
            else on_one_line(value)
            if name in _LONG
            else tag("span", on_one_line(value), class_="term")
            for name, value in row.items()
        }
        for row in rows
    ]


def _score(value: float | None) -> str:
    return "–" if value is None else formatting.score(value)


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
