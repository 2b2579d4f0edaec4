"""Which parts of the screen are shown at which size.

Invariant: `frame` gives lines no wider than the terminal, and their number depends on the size alone and is below the
terminal's rows. From 100 columns two columns of sections, from 60 one, below that (or with few rows) plain short lines.
"""

from rich.text import Text

from pace_async.observe import sections, words
from pace_async.observe.chart import spark
from pace_async.observe.lines import GUTTER, QUIET, STRONG, Section, beside, fit
from pace_async.observe.model import RunView
from pace_async.observe.sections import STATE_STYLES
from pace_async.observe.text import clean

WIDE, MIDDLE, WIDEST = 100, 60, 180
MOST_EVENTS = 10
FOOTER = "Ctrl-C finishes what is in flight and stops; twice stops at once"


def frame(view: RunView, now: float, columns: int, rows: int) -> list[Text]:
    """The screen, top line first."""
    room = max(1, rows - 1)
    width = min(columns, WIDEST) - 2
    if columns >= WIDE and room >= 20:
        lines = _two_columns(view, now, width, room)
    elif columns >= MIDDLE and room >= 22:
        lines = _one_column(view, now, width, room)
    else:
        return [fit(line, columns) for line in _few_lines(view, now, columns)[:room]]
    return [Text.assemble(" ", fit(line, width)) for line in lines]


def _two_columns(view: RunView, now: float, width: int, room: int) -> list[Text]:
    """Header 3, upper sections 1 + upper, lower sections 1 + 5, events 1 + shown, footer 1, three blank lines."""
    airy = room >= 28
    blank = [Text("")] if airy else []
    spare = room - (3 + 1 + 6 + 1 + 1 + 3 * len(blank))
    upper = min(9, max(5, spare - 6))
    shown = min(MOST_EVENTS, spare - upper)
    left = (width - GUTTER) // 2
    right = width - GUTTER - left
    return [
        *_header(view, now, width, full=True),
        *blank,
        *beside(
            sections.best(view, now, left, upper).draw(left),
            sections.learner(view, upper).draw(right),
            left,
            right,
        ),
        *blank,
        *beside(sections.search(view, now).draw(left), sections.staleness(view, right, 5).draw(right), left, right),
        *blank,
        *sections.events(view, shown).draw(width),
        _footer(view),
    ]


def _one_column(view: RunView, now: float, width: int, room: int) -> list[Text]:
    """Header 2, best 1 + 5, search 1 + 4, learner 1 + 5, events 1 + shown, footer 1."""
    search = sections.search(view, now)
    learner = sections.learner(view, 5)
    tall = room >= 30
    upper = 5 + 2 * tall
    spare = room - (2 + 1 + upper + 5 + 7 + 1 + 1 + 4 * tall)
    blank = [Text("")] if tall else []
    return [
        *_header(view, now, width, full=False),
        *blank,
        *sections.best(view, now, width, upper).draw(width),
        *blank,
        *Section(search.title, search.lines[:4], search.aside).draw(width),
        *blank,
        *Section(learner.title, [*learner.lines, sections.staleness_line(view)], learner.aside).draw(width),
        *blank,
        *sections.events(view, min(MOST_EVENTS, spare)).draw(width),
        _footer(view),
    ]


def _few_lines(view: RunView, now: float, width: int) -> list[Text]:
    """The most important first, so that what does not fit can be left out."""
    stages = view.by_stage()
    limit = f"/{view.stop.candidates}" if view.stop.candidates is not None else ""
    rate = view.per_minute(now)
    side = view.learner
    ages = " ".join(f"{age}:{amount}" for age, amount in sorted(view.staleness.items())) or "–"
    score = "–" if view.best is None else words.score(view.best.score)
    metrics = side.metrics
    return [
        Text.assemble(
            (clean(view.state).replace("_", " "), STATE_STYLES.get(view.state, "yellow")),
            " ",
            words.duration(view.elapsed(now)),
            (f" {clean(view.header.name)}", QUIET),
        ),
        Text.assemble(("best ", QUIET), (score, STRONG), _origin(view)),
        Text(spark(view.best_so_far(width), width), style="green"),
        Text.assemble(
            ("done ", QUIET),
            f"{view.candidates}{limit}",
            (f" {words.number(rate)}/min" if rate is not None else "", QUIET),
        ),
        Text.assemble(("stale ", QUIET), ages, (f" ≤ {view.header.max_staleness}", QUIET)),
        Text.assemble(
            ("groups ", QUIET),
            f"{side.trained}",
            (f" skip {side.skipped}", QUIET) if side.skipped else "",
            (f" v{side.published}", QUIET),
        ),
        Text.assemble(("threads ", QUIET), " ".join(f"{stage[:2]}{amount}" for stage, amount in stages.items())),
        Text.assemble(("leases ", QUIET), f"{view.leases.open}", (" open", QUIET)),
        Text.assemble(
            ("alpha ", QUIET),
            words.number(side.alpha, 2),
            (" entropy ", QUIET),
            words.number(metrics.get("entropy")),
        ),
        Text.assemble(("faults ", QUIET), str(view.faults), (f" {words.usd(view.spend_usd)}", QUIET)),
        Text(view.notes[-1].text if view.notes else "", style=QUIET),
    ]


def _origin(view: RunView) -> tuple[str, str]:
    return ("", "") if view.best is None else (f" cand. {view.best.candidate}", QUIET)


def _header(view: RunView, now: float, width: int, full: bool) -> list[Text]:
    lines = [sections.title(view, now, width), sections.stop_bar(view, now, width)]
    return [lines[0], sections.setting(view), lines[1]] if full else lines


def _footer(view: RunView) -> Text:
    if view.ended_at is not None:
        return Text(view.reason, style=QUIET)
    return Text(FOOTER, style=QUIET)
