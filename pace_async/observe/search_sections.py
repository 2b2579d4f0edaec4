"""The screen's search section: candidates, threads, leases, money and the bottleneck.

Pure, as `sections` is: a view, the present time and a size in, lines out.
"""

from typing import get_args

from rich.text import Text

from pace_async.events import Role
from pace_async.observe import formatting, spending
from pace_async.observe.few_scores import few_scores
from pace_async.observe.lines import ACCENT, LABEL, QUIET, WARN, Section, figure, join_parts, labelled
from pace_async.observe.model import RunView, Stage
from pace_async.observe.parse_rate import alarm_of, answers_of, parse_rate
from pace_async.observe.roofline import Roofline, short_advice
from pace_async.registry.objectives import trains

STAGE_STYLES: dict[Stage, str] = {"advise": "magenta", "implement": "blue", "evaluate": ACCENT, "waiting": QUIET}
STAGE_MARKS: dict[Stage, str] = {"advise": "▲", "implement": "◆", "evaluate": "■", "waiting": "·"}
STAGE_SHORT: dict[Stage, str] = {"advise": "adv", "implement": "impl", "evaluate": "eval", "waiting": "wait"}
ALL_ROWS, FEW_ROWS = 6, 4


def search(view: RunView, now: float, width: int, rows: int = ALL_ROWS) -> Section:
    """ALL_ROWS lines, or FEW_ROWS. The short form leaves out the leases and puts rate and outcomes on one line. Without
    training there is one more line, which says so."""
    room = width - LABEL
    rate = view.per_minute(now)
    done = figure(f"{view.candidates:,}", "candidate" + ("" if view.candidates == 1 else "s"))
    if rows < ALL_ROWS:
        quick = f"{formatting.number(rate)}/min" if rate is not None else ""
        lines = [labelled("finished", join_parts([done, quick, *outcomes_of(view)]))]
    else:
        paced = figure(formatting.number(rate), "a minute") if rate is not None else ""
        lines = [labelled("finished", join_parts([done, paced])), labelled("outcomes", join_parts(outcomes_of(view)))]
    lines.append(labelled("threads", _threads(view, room)))
    if rows >= ALL_ROWS:
        lines.append(labelled("leases", _leases(view)))
    lines += [
        labelled("services", _services(view, room)),
        labelled("slowed by", failing_or_bottleneck(view, now, room)),
    ]
    if not trains(view.header.objective):
        lines.append(labelled("learning", Text(formatting.learns_nothing(view.header.advisor), style=QUIET)))
    busy = view.busy(now)
    aside = (
        formatting.count(view.header.threads, "thread"),
        f"{view.leases.in_flight:,} in flight",
        f"{100 * busy:.0f} % busy" if busy is not None else "",
    )
    return Section("search", lines, tuple(part for part in aside if part))


def money(view: RunView, told: bool = True) -> Text:
    """The money spent, the cost reserved by calls in flight, and the budget. `told` adds the word "reserved"."""
    reserved, budget = sum(view.reserved.values()), view.stop.budget
    return Text.assemble(
        spending.spent_usd(view.spend_usd, view.unpriced),
        (f" + {formatting.usd(reserved)}{' reserved' if told else ''}" if reserved else "", QUIET),
        (" of ", QUIET) if budget is not None else "",
        formatting.usd(budget) if budget is not None else "",
    )


def failing_or_bottleneck(view: RunView, now: float, room: int) -> Text:
    """The failing stage if there is one, else why hardly any candidate has a score, else that answers no longer
    parse, else the bottleneck."""
    if view.failing and view.ended_at is None:
        return Text(formatting.failing(view.failing), style=WARN)
    few = few_scores(view.candidates, view.scored, view.causes, view.header.name)
    if few is not None:
        return Text(few.sentence if len(few.sentence) <= room else few.short, style=WARN)
    alarm = alarm_of(*answers_of(view.header.advisor, view.outcomes, view.recent_answers), view.header.name)
    if alarm is not None:
        return Text(alarm, style=WARN)
    return bottleneck(view.limits(now), room)


def bottleneck(limits: Roofline | None, room: int) -> Text:
    """The bottleneck and what would help, in the longest form that fits."""
    if limits is None:
        return Text("nothing timed yet" if room >= 20 else "–", style=QUIET)
    forms = [Text(form) for form in short_advice(limits)]
    return next((form for form in forms if form.cell_len <= room), forms[-1])


def outcomes_of(view: RunView) -> list[Text]:
    """How many candidates ended in which way, and what early ends saved."""
    failed = sorted(((amount, name) for name, amount in view.outcomes.items() if name != "ok"), reverse=True)
    failures = [figure(amount, name.replace("_", " ")) for amount, name in failed]
    outcomes, _ = answers_of(view.header.advisor, view.outcomes, view.recent_answers)
    rate = parse_rate(outcomes)
    parsed = [figure(f"{100 * rate:.0f} %", "parsed")] if rate is not None else []
    saved = [Text(f"{saving} saved")] if (saving := formatting.savings(view.saved.share)) else []
    return [figure(view.outcomes.get("ok", 0), "scored"), *parsed, *failures, *saved]


def _leases(view: RunView) -> Text:
    leases = view.leases
    return join_parts(
        [
            figure(leases.in_flight, "in flight"),
            figure(leases.buffered, "complete"),
            figure(leases.training, "training") if trains(view.header.objective) else "",
            figure(leases.aborted, "aborted", WARN) if leases.aborted else "",
        ]
    )


def _services(view: RunView, room: int) -> Text:
    """Money first, because the end is cut off."""
    nodes = [Text(formatting.nodes(view.nodes))] if view.nodes is not None and view.ended_at is None else []
    faults = figure(view.faults, "fault" if view.faults == 1 else "faults", WARN if view.faults else "")
    total = sum(view.calls.values())
    calls = figure(f"{total:,}", "call" if total == 1 else "calls")
    forms = [
        join_parts([money(view), faults, *nodes, *_calls(view)]),
        join_parts([money(view), faults, *nodes, calls]),
        join_parts([money(view), faults, *nodes]),
        join_parts([money(view, told=False), faults, *nodes]),
        join_parts([money(view, told=False), faults, calls]),
        join_parts([money(view, told=False), faults]),
    ]
    return next((form for form in forms if form.cell_len <= room), forms[-1])


def _calls(view: RunView) -> list[Text]:
    """The calls of each role. Those of others than the implementer come with their part of the cost."""
    counts: list[Text] = []
    for role in get_args(Role):
        if (calls := view.calls.get(role, 0)) or role == "implementer":
            counts.append(figure(f"{calls:,}", f"{role} call" + ("" if calls == 1 else "s")))
    paid = [role for role in spending.OTHERS if view.calls.get(role)]
    return [*counts, *(figure(_spent(view, role), f"for the {role}") for role in paid)]


def _spent(view: RunView, role: str) -> str:
    return spending.spent_usd(view.spent.get(role, 0.0), {role} & view.unpriced)


def _threads(view: RunView, width: int) -> Text:
    counts = view.by_stage()
    strip = Text()
    for stage, amount in counts.items():
        strip.append(STAGE_MARKS[stage] * amount, style=STAGE_STYLES[stage])
    busy: list[tuple[Stage, int]] = [(stage, amount) for stage, amount in counts.items() if amount]
    legend = join_parts([figure(amount, stage, STAGE_STYLES[stage]) for stage, amount in busy])
    if strip.cell_len + 2 + legend.cell_len <= width:
        return Text.assemble(strip, "  ", legend)
    if legend.cell_len <= width:
        return legend
    return join_parts([figure(amount, STAGE_SHORT[stage], STAGE_STYLES[stage]) for stage, amount in busy])
