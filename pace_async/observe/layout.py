"""Which parts of the screen appear at each terminal size.

Invariant: `frame` gives lines no wider than the terminal. Their number is below the terminal's rows and depends only on
the size as long as the run goes on. From 100 columns on there are two columns of sections, from 60 on there is one, and
below that (or with few rows) there are plain short lines.
"""

from rich.text import Text

from pace_async.observe import formatting, sections
from pace_async.observe import learning_sections as learning
from pace_async.observe import search_sections as searching
from pace_async.observe.beside import fitting, legends
from pace_async.observe.chart import spark
from pace_async.observe.formatting import clean
from pace_async.observe.lines import GUTTER, QUIET, STRONG, WARN, Section, beside, elided, fit
from pace_async.observe.model import RunView
from pace_async.observe.spending import UNKNOWN
from pace_async.observe.standing import on_fresh
from pace_async.registry.objectives import objective_of, trains

WIDE, MIDDLE, WIDEST = 100, 60, 180
MOST_EVENTS, FEW_EVENTS = 40, 3
FOOTER = "Ctrl-C: finish what is in flight · twice: stop at once"
DRAINING = "finishing what is in flight · Ctrl-C: stop at once"
WATCHING = "Ctrl-C: leave this screen, the run goes on"


def frame(view: RunView, now: float, columns: int, rows: int, footer: str = FOOTER) -> list[Text]:
    """The screen, top line first. The last line leaves columns free, because the terminal echoes typed keys behind
    it. `footer` is the last line while the run goes on."""
    room = max(1, rows - 1)
    width = min(columns, WIDEST) - 2
    if columns >= WIDE and room >= 20:
        lines = [Text.assemble(" ", fit(line, width)) for line in _two_columns(view, now, (width, room), footer)]
    elif columns >= MIDDLE and room >= 22:
        lines = [Text.assemble(" ", fit(line, width)) for line in _one_column(view, now, (width, room), footer)]
    else:
        lines = [fit(line, columns - 1) for line in _few_lines(view, now, columns - 1)[:room]]
    lines[-1].rstrip()
    lines[-1].truncate(max(1, columns - len("^C^C")), overflow="ellipsis")
    return lines


def _two_columns(view: RunView, now: float, size: tuple[int, int], footer: str) -> list[Text]:
    """Header 3, upper sections 1 + upper, lower sections 1 + 6, events 1 + shown, footer 1, and blank lines. A run that
    trains nothing has the sections of the search at the whole width, and one line more."""
    width, room = size
    airy, learns = room >= 30, trains(view.header.objective)
    blank = [Text("")] if airy else []
    spare = room - (3 + 1 + 7 + (not learns) + 1 + 1 + 4 * airy)
    upper = min(10 if room < 45 else 14, max(5, spare - 6))
    left = (width - GUTTER) // 2 if learns else width
    right = width - GUTTER - left
    best, search = sections.best(view, now, left, upper).draw(left), searching.search(view, now, left).draw(left)
    if learns:
        best = beside(best, learning.learner(view, right, upper).draw(right), left, right)
        search = beside(search, learning.staleness(view, right, searching.ALL_ROWS).draw(right), left, right)
    return [
        *_header(view, now, width, full=True),
        *blank,
        *best,
        *blank,
        *search,
        *blank,
        *sections.events(view, min(MOST_EVENTS, spare - upper), width).draw(width),
        *_footer(view, footer, blank),
    ]


def _one_column(view: RunView, now: float, size: tuple[int, int], footer: str) -> list[Text]:
    """Header 2, best 1 + upper, search 1 + lines, learner 1 + 5, events 1 + shown, footer 1, and blank lines. A
    run that trains nothing has no section of the learner, and one line more in that of the search."""
    width, room = size
    airy, learns = room >= 34, trains(view.header.objective)
    blank = [Text("")] if airy else []
    upper = 7 if airy else 4
    lines = searching.ALL_ROWS if room >= 25 or not learns else searching.FEW_ROWS
    around = 6 if learns else 1
    shown = min(MOST_EVENTS, room - (2 + 1 + upper + 1 + lines + around + 1 + 1 + (4 + learns) * airy))
    search, learner = searching.search(view, now, width, lines), list[Text]()
    if learns:
        section = learning.learner(view, width, 4)
        learner = Section(section.title, [*section.lines, learning.staleness_line(view)], section.aside).draw(width)
        learner += blank
    return [
        *_header(view, now, width, full=False),
        *blank,
        *sections.best(view, now, width, upper).draw(width),
        *blank,
        *search.draw(width),
        *blank,
        *learner,
        *sections.events(view, shown, width).draw(width),
        *_footer(view, footer, blank),
    ]


def _few_lines(view: RunView, now: float, width: int) -> list[Text]:
    """The most important lines first, so that the rest can be cut."""
    stages = view.by_stage()
    limit = f"/{view.stop.candidates}" if view.stop.candidates is not None else ""
    rate = view.per_minute(now)
    learns = trains(view.header.objective)
    ages = " ".join(f"{age}:{amount}" for age, amount in sorted(view.staleness.items())) or "–"
    notes = [Text(elided(note.text, width), style=QUIET) for note in sections.recent(view.notes, FEW_EVENTS)]
    score = "–" if view.best is None else formatting.score(view.best.score)
    style = sections.standing(view)[1]
    return [
        Text.assemble(
            (
                "paused"
                if (view.paused or view.held) and view.ended_at is None
                else clean(view.state).replace("_", " "),
                style,
            ),
            " ",
            formatting.duration(view.elapsed(now)),
            (f" {clean(view.header.name)}", QUIET),
        ),
        Text.assemble(("best ", QUIET), (score, STRONG), _origin(view), (_fresh(view), QUIET)),
        Text(spark(view.best_so_far(width), width), style="green"),
        *([] if view.beside is None else [fitting(legends(view), width)]),
        Text.assemble(
            ("done ", QUIET),
            f"{view.candidates}{limit}",
            (f" {formatting.number(rate)}/min" if rate is not None else "", QUIET),
        ),
        Text.assemble(("cost ", QUIET), _money(view)),
        *([Text.assemble(("stale ", QUIET), ages, (f" ≤ {view.header.max_staleness}", QUIET))] if learns else []),
        Text.assemble(
            ("slow ", QUIET),
            searching.failing_or_bottleneck(view, now, width - len("slow ")),
        ),
        Text.assemble(
            ("faults ", QUIET),
            str(view.faults),
            (_silent(view), WARN),
        ),
        *([_groups(view)] if learns else []),
        Text.assemble(
            ("threads ", QUIET), " ".join(f"{name[:2]}{amount}" for name, amount in stages.items() if amount)
        ),
        Text.assemble(("leases ", QUIET), f"{view.leases.in_flight}", (" in flight", QUIET)),
        *(_update(view) if learns else []),
        *notes,
        *[Text("")] * (FEW_EVENTS - len(notes)),
    ]


def _groups(view: RunView) -> Text:
    side = view.learner
    skipped = (f" skip {side.skipped}", QUIET) if side.skipped else ""
    return Text.assemble(("groups ", QUIET), f"{side.trained}", skipped, (f" v{side.published}", QUIET))


def _update(view: RunView) -> list[Text]:
    """Figures of the last update."""
    alpha = formatting.number(view.learner.alpha, 2) if objective_of(view.header.objective).uses_alpha else "–"
    entropy = formatting.number(view.learner.metrics.get("entropy"))
    return [Text.assemble(("alpha ", QUIET), alpha), Text.assemble(("entropy ", QUIET), entropy)]


def _money(view: RunView) -> Text:
    """Spending, budget and reservations, in this order and in cents. The end may be cut off."""
    reserved, budget = sum(view.reserved.values()), view.stop.budget
    return Text.assemble(
        f"${view.spend_usd:,.2f}" if view.spend_usd or not view.unpriced else "",
        f"/${budget:,.2f}" if budget is not None else "",
        (" and " if view.spend_usd else "") + UNKNOWN if view.unpriced else "",
        (f" +${reserved:,.2f}" if reserved else "", QUIET),
    )


def _silent(view: RunView) -> str:
    if view.models_down:
        return f" {formatting.count(view.models_down, 'model')} down"
    return f" last {view.unanswered}" if view.unanswered >= sections.MANY_UNANSWERED else ""


def _origin(view: RunView) -> tuple[str, str]:
    return ("", "") if view.best is None else (f" #{view.best.candidate}", QUIET)


def _fresh(view: RunView) -> str:
    if view.best is None:
        return ""
    phrase = on_fresh(view.best.score, view.best.fresh, view.header, long=False)
    return f" {phrase}" if phrase else ""


def _header(view: RunView, now: float, width: int, full: bool) -> list[Text]:
    lines = [sections.title(view, now, width), sections.stop_bar(view, now, width)]
    return [lines[0], sections.setting(view), lines[1]] if full else lines


def _footer(view: RunView, footer: str, blank: list[Text]) -> list[Text]:
    message = DRAINING if view.state == "draining" and footer == FOOTER else footer
    return [] if view.ended_at is not None else [*blank, Text(message, style=QUIET)]
