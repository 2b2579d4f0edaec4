"""The closing summary of a run: the best program, its place, the cost, and the next commands.

Pure: a view and a folder in, lines out.
"""

import shlex
import textwrap
from pathlib import Path

from pace_async.observe import formatting, spending
from pace_async.observe.beside import recorded_words
from pace_async.observe.few_scores import few_scores
from pace_async.observe.formatting import clean
from pace_async.observe.model import RunView
from pace_async.observe.parse_rate import alarm_of, answers_of
from pace_async.observe.progress import progress
from pace_async.observe.roofline import advice
from pace_async.observe.standing import on_fresh, to_best_known
from pace_async.registry.objectives import trains
from pace_async.search.front import hypervolume
from pace_async.state.stop_rules import STOP_RULES
from pace_async.task import reference_of

LEADERBOARD = "select * from leaderboard limit 5"
INDENT, NARROW = 14, 50


def closing_words(view: RunView, run_dir: Path, now: float, columns: int | None = None) -> list[str]:
    """Lines without markup, broken between words to fit `columns` if given. A command is never broken, because people
    copy it. A run without a program better than the seed program states that."""
    state = formatting.STATES.get(view.state, clean(view.state)).split(":")[0]
    reason = f": {view.reason}" if view.reason else ""
    ended = f"{state[:1].upper()}{state[1:]} after {formatting.duration(view.elapsed(now))}{reason}."
    lines = [*_broken(ended, "", columns), ""]
    run = shlex.quote(str(run_dir))
    few = few_scores(view.candidates, view.scored, view.causes, run)
    facts = [
        ("few scores", few.sentence if few else ""),
        ("answers", alarm_of(*answers_of(view.header.advisor, view.outcomes, view.recent_answers), run) or ""),
        ("best", _best_text(view)),
        ("front", _front(view)),
        ("baseline", recorded_words(view)),
        ("experiment", view.best.experiment if view.best is not None else ""),
        ("candidates", _candidates(view, now)),
        ("saved", formatting.savings(view.saved.share)),
        ("learning", _learning(view)),
        ("trust", f"shared: {formatting.SHARED_MEANS}" if view.header.shares_trust else ""),
        ("speed", "" if few else _limit(view, now)),
        ("cost", _cost(view)),
        ("given up", _given_up(view)),
        ("run", str(run_dir)),
    ]
    rest = " " * (INDENT if columns is None or columns >= NARROW else 4)
    lines += [part for label, value in facts if value for part in _broken(f"  {label:<11} {value}", rest, columns)]
    commands = _next(view, run, now)
    return [*lines, "", "Next:", *(f"  {purpose:<18}  {command}" for command, purpose in commands)]


def _broken(line: str, indent: str, columns: int | None) -> list[str]:
    """The line in parts no wider than `columns`, all but the first after `indent`. A longer word stays whole."""
    if columns is None:
        return [line]
    return textwrap.wrap(
        line, max(columns, 20), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _best_text(view: RunView) -> str:
    if view.best is None:
        return "no candidate got a score"
    seed = "" if view.seed_score is None else f"; the seed program scored {formatting.score(view.seed_score)}"
    known = to_best_known(view.best.score, view.best_known, view.header.fitness)
    known = f"; {known}" if known else ""
    if view.best.candidate == 0:
        return f"{formatting.score(view.best.score)}, the seed program itself: no candidate was better{known}"
    phrase = on_fresh(view.best.score, view.best.fresh, view.header)
    fresh = f" ({phrase})" if phrase else ""
    score = f"{formatting.score(view.best.score)}{fresh}"
    return f"{score}, candidate {view.best.candidate} of island {view.best.island}{seed}{known}"


def _front(view: RunView) -> str:
    volume = hypervolume([program.costs for program in view.front])
    return f"{formatting.count(len(view.front), 'program')}, hypervolume {volume:.4f}" if view.front else ""


def _candidates(view: RunView, now: float) -> str:
    rate = view.per_minute(now)
    failed = sorted(((amount, name) for name, amount in view.outcomes.items() if name != "ok"), reverse=True)
    parts = [
        f"{view.candidates:,} complete" + (f" ({formatting.number(rate)} a minute)" if rate else ""),
        f"{view.outcomes.get('ok', 0):,} scored",
        *(f"{amount:,} {name.replace('_', ' ')}" for amount, name in failed),
    ]
    return ", ".join(parts)


def _learning(view: RunView) -> str:
    if not trains(view.header.objective):
        return "none (objective none)"
    side = view.learner
    trained = sum(view.staleness.values())
    mean = sum(age * amount for age, amount in view.staleness.items()) / trained if trained else 0.0
    ages = f"; staleness mean {mean:.2f}, at most {max(view.staleness)} updates" if view.staleness else ""
    skipped = f", {side.skipped} skipped" if side.skipped else ""
    if side.rollbacks:
        skipped += f", {formatting.went_back(side.rollbacks)}"
    if view.leases.expired:
        skipped += f"; {formatting.count(view.leases.expired, 'finished rollout')} thrown away as too old"
    return f"{formatting.count(side.trained, 'group')} trained{skipped}; version {side.published} published{ages}"


def _limit(view: RunView, now: float) -> str:
    if view.failing:
        return f"{formatting.failing(view.failing)}."
    limits, busy = view.limits(now), view.busy(now)
    if limits is None or busy is None:
        return ""
    return f"threads {100 * busy:.0f} % busy. {advice(limits, view.header.max_staleness)}"


def _cost(view: RunView) -> str:
    calls = spending.calls(view.calls, view.spent, view.unpriced)
    aborted = f", {formatting.count(view.leases.aborted, 'rollout')} aborted" if view.leases.aborted else ""
    short = view.unaffordable
    next_call = (
        f"; the next may cost {formatting.usd(short.usd)}, {formatting.usd(short.left_usd)} are left" if short else ""
    )
    faults = f"{formatting.count(view.faults, 'fault')} of services or machine"
    return f"{spending.spent_usd(view.spend_usd, view.unpriced)} for {calls}{next_call}; {faults}{aborted}"


def _given_up(view: RunView) -> str:
    """What is counted for calls that ended without their answer, because the run ended."""
    usd, number = view.given_up_usd, view.given_up
    if not usd:
        return ""
    calls = formatting.count(number, "call that had no answer", "calls that had no answer")
    most = (
        "it can cost, because the provider may charge for it"
        if number == 1
        else ("they can cost, because the provider may charge for them")
    )
    return (
        f"{formatting.usd(usd)} of this was reserved for {calls} when the run ended: the most that {most}. It stays "
        "counted, also on resume; the provider's bill says what was charged"
    )


def _raised(view: RunView, now: float) -> str:
    """Flags that raise every reached limit, because a resume stops at once at any that stays. Minutes are counted
    from zero."""
    reached = {rule.rule for rule in progress(view, now) if rule.share >= 1}
    reached |= {rule for rule in STOP_RULES if view.reason == formatting.reason(view.state, rule)}
    if view.state == "stopped_by_budget":  # the rest of the budget could not pay the next call
        reached.add("budget")
    stop, next_call = view.stop, view.unaffordable.usd if view.unaffordable else 0.0
    budget = max(2 * (stop.budget or 0.0), 2 * view.spend_usd, view.spend_usd + 2 * next_call)
    flags = {
        "candidates": f"--candidates {2 * max(stop.candidates or 0, view.candidates)}",
        "updates": f"--updates {2 * max(stop.updates or 0, view.groups)}",
        "budget": f"--budget {formatting.number(budget)}",
        "target": "--target SCORE",
    }
    return "".join(f" {flag}" for rule, flag in flags.items() if rule in reached)


def _next(view: RunView, run: str, now: float) -> list[tuple[str, str]]:
    commands = [(f"pace best {run}", "the best program")]
    if view.front:
        commands.append((f"pace best {run} --front", "what nothing surpasses"))
    if view.best is not None and view.best.candidate:
        commands.append((f"pace show {run} {view.best.candidate}", "where it came from"))
    if few_scores(view.candidates, view.scored, view.causes):  # another run of the same kind would not help
        task = shlex.quote(reference_of(view.header))
        return [*commands, (f"pace task check {task}", "see what is wrong"), (f"pace show {run} 1", "see a failure")]
    purpose = "go on from here" if view.state in ("interrupted", "gave_up", "crashed") else "search further"
    commands.append((f"pace resume {run}{_raised(view, now)}", purpose))
    commands.append((f'pace db sql {run} "{LEADERBOARD}"', "ask the population"))
    return commands
