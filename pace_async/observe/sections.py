"""Sections of the screen: the header, the best program, the last events. `search_sections` has the search,
`learning_sections` the learner.

Pure: a view, the present time and a size in, lines out. The number of lines depends on the size alone, so that a frame
never changes its height.
"""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from pace_async.events import RunHeader
from pace_async.observe import formatting
from pace_async.observe.beside import behind, fitting, legends
from pace_async.observe.formatting import clean
from pace_async.observe.lines import ACCENT, GOOD, QUIET, STRONG, WARN, Section, axed, elided, join_parts, spread
from pace_async.observe.model import Note, NoteKind, RunView
from pace_async.observe.progress import progress
from pace_async.observe.standing import on_fresh, to_best_known
from pace_async.registry.objectives import trains

AXIS = 8
MANY_UNANSWERED = 4
STRIPED = 3
"""Rows of a chart on which a stripe leaves something of the curve to be seen."""
NOTE_MARKS: dict[NoteKind, tuple[str, str]] = {
    "seed": ("▶", ""),
    "best": ("★", GOOD),
    "candidate": ("·", QUIET),
    "group": ("●", ACCENT),
    "fault": ("!", WARN),
    "state": ("▶", STRONG),
}
STATE_STYLES = {"running": GOOD, "done": GOOD, "draining": WARN, "crashed": "red", "gave_up": "red"}


def title(view: RunView, now: float, width: int) -> Text:
    """The run's name, its task and its state."""
    left = Text.assemble(
        ("pace", f"{STRONG} {ACCENT}"),
        "  ",
        (clean(view.header.name), STRONG),
        (f"  {clean(view.header.task)}, {view.header.fitness.in_words}", QUIET),
    )
    state = Text.assemble(standing(view), "  ", (formatting.duration(view.elapsed(now)), STRONG))
    return spread(left, state, width)


def standing(view: RunView) -> tuple[str, str]:
    """The run's state, with a note if models do not answer, and its style."""
    state = clean(view.state).replace("_", " ")
    if view.state == "starting" and view.reason:
        state = f"starting {clean(view.reason)}"
    if view.stalled and view.ended_at is None:
        return f"paused: {clean(view.stalled)}", WARN
    if view.held and view.state == "running":
        return "paused by p, what is in flight goes on", WARN
    if view.failing and view.ended_at is None:
        return f"{state}, {formatting.failing(view.failing)}", WARN
    if view.ended_at is not None or not (view.models_down or view.unanswered >= MANY_UNANSWERED):
        return state, STATE_STYLES.get(view.state, WARN)
    if not view.models_down:
        return f"{state}, last {view.unanswered} calls failed", WARN
    if not view.paused:
        return f"{state}, {formatting.count(view.models_down, 'model')} down", WARN
    return "paused: no model answers" if view.state == "running" else f"{state}, no model answers", WARN


def setting(view: RunView) -> Text:
    """The run's settings in one dim line, the most important first."""
    header = view.header
    parts = (
        *([formatting.SHARED_TRUST] if header.shares_trust else []),
        f"advisor {clean(header.advisor)} ({clean(header.engine)})",
        f"implementer {clean(header.implementer)}",
        *(_training(header) if trains(header.objective) else ("objective none",)),
        f"seed {header.seed}",
        f"sandbox {clean(header.sandbox)}",
    )
    return Text(" · ".join(parts), style=QUIET)


def _training(header: RunHeader) -> tuple[str, ...]:
    bound = f"staleness ≤ {header.max_staleness}" if header.max_staleness else "synchronous"
    return f"groups of {header.group_size}", bound


def stop_bar(view: RunView, now: float, width: int) -> Text:
    """A bar for the stop rule with the greatest share, and its text."""
    rules = progress(view, now)
    if not rules:
        return Text("no stop rule: runs until it is interrupted", style=QUIET)
    first = rules[0]
    left = first.seconds_left if view.ended_at is None else None
    label = join_parts(
        [
            Text(f"{100 * first.share:.0f} %", style=STRONG),
            first.words,
            Text(f"about {formatting.duration(left)} left", style=QUIET) if left is not None else "",
        ]
    )
    room = width - label.cell_len - 2
    if room < 8:
        return label
    full = round(room * first.share)
    return Text.assemble(("━" * full, ACCENT), ("─" * (room - full), QUIET), "  ", label)


def best(view: RunView, now: float, width: int, rows: int) -> Section:
    """The best score, its experiment and its curve over the candidates, in `rows` ≥ 3 lines."""
    curve = view.best_so_far(width - AXIS - 1)
    legend = [] if view.beside is None else [fitting(legends(view), width)]
    height = rows - 2 - len(legend)
    stripe = behind(view, len(curve)) if height >= STRIPED else []
    chart = axed(curve, (width, height), GOOD, (AXIS, 4), stripe)
    lines = [_best_score(view, width), *chart, *legend, _experiment(view)]
    return Section("best so far", lines, _best_origin(view, now))


def _best_score(view: RunView, width: int) -> Text:
    """The score, then its value on fresh instances, its relation to the best known, and the gain, in the longest form
    that fits."""
    best = view.best
    if best is None:
        return Text("no score yet", style=QUIET)
    score = Text(formatting.score(best.score), style=f"{STRONG} {GOOD}")
    long, short = (on_fresh(best.score, best.fresh, view.header, long=long) for long in (True, False))
    full, bare = (to_best_known(best.score, view.best_known, view.header.fitness, named=full) for full in (True, False))
    gained: Text | str = ""
    change: Text | str = ""
    if view.seed_score is not None and best.candidate != 0:
        gain = best.score - view.seed_score
        change = Text(f"{'+' if gain >= 0 else '−'}{formatting.score(abs(gain))}")
        gained = Text.assemble(change, (f" from the seed program's {formatting.score(view.seed_score)}", QUIET))
    forms = [
        (long, full, gained),
        (long, bare, gained),
        (long, bare, change),
        (short, bare, change),
        (short, bare, ""),
        (short, "", ""),
    ]
    lines = [Text.assemble(score, "  ", join_parts(form)) for form in forms]
    return next((line for line in lines if line.cell_len <= width), lines[-1])


def _best_origin(view: RunView, now: float) -> tuple[str, ...]:
    if view.best is None:
        return ()
    front = (f"front of {len(view.front)}",) if view.front else ()
    if view.best.candidate == 0:
        return ("the seed program", *front)
    end = view.ended_at if view.ended_at is not None else now
    ago = f"{formatting.duration(end - view.best.at)} {'before the end' if view.ended_at is not None else 'ago'}"
    return (f"candidate {view.best.candidate}", ago, f"island {view.best.island}", *front)


def _experiment(view: RunView) -> Text:
    if view.best is None or view.best.candidate == 0:
        return Text(
            "the seed program's score: no candidate is better yet" if view.best is not None else "", style=QUIET
        )
    return Text(view.best.experiment)


def events(view: RunView, rows: int, width: int) -> Section:
    """The last notes in `rows` lines, newest at the bottom. A long one keeps its beginning and its end. Candidates that
    are not a new best take at most half of the lines while there are other notes."""
    lines: list[Text] = []
    for note in recent(view.notes, rows):
        mark, style = NOTE_MARKS[note.kind]
        at = formatting.duration(note.at - view.started_at) if view.started_at is not None else ""
        quiet = QUIET if note.kind == "candidate" else ""
        text = _short(note, width - 10)
        lines.append(Text.assemble((f"{at:>7} ", QUIET), (mark, style), " ", (text, quiet)))
    return Section("last events", [*lines, *[Text("")] * (rows - len(lines))])


def _short(note: Note, width: int) -> str:
    """The note in `width` cells: shortened first by the words that repeat its mark, then in the middle."""
    text = note.text
    for known in (", the best so far", "candidate ") if note.kind in ("best", "candidate") else ():
        if cell_len(text) > width:
            text = text.replace(known, "", 1)
    return elided(text, width)


def recent(notes: Sequence[Note], rows: int) -> list[Note]:
    """The newest `rows` notes in their order, at most half of them about ordinary candidates if others are there."""
    telling = [index for index, note in enumerate(notes) if note.kind != "candidate"]
    ordinary = [index for index, note in enumerate(notes) if note.kind == "candidate"]
    few = min(len(ordinary), max(rows - len(telling), rows // 2))
    chosen = sorted(telling[max(0, len(telling) - rows + few) :] + ordinary[len(ordinary) - few :])
    return [notes[index] for index in chosen]
