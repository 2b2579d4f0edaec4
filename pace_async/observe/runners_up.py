"""The candidates behind the best one of a view. One of them takes its place when a person bans the best, or when the
best is measured again. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cmp_to_key
from typing import Any

from pace_async.events import MeasuredAgain, Steered
from pace_async.fitness import ranks_above
from pace_async.observe.model import RUNNERS_UP, Best, RunView


def behind_with(view: RunView, contender: Best | None) -> tuple[Best, ...]:
    """Those behind the best, with one more, by rank."""
    known, most = view.behind, RUNNERS_UP + len(view.banned)
    if contender is None or (len(known) >= most and not _stands_above(view, contender, known[-1])):
        return known
    place = next((place for place, other in enumerate(known) if _stands_above(view, contender, other)), len(known))
    return (*known[:place], contender, *known[place:])[:most]


def after_word(view: RunView, event: Steered) -> dict[str, Any]:
    """What changes in the view by a person's word, by field. A banned candidate is not the best, and what it gained is
    left out of the curve."""
    banned = {*view.banned, event.number} if event.text == "ban" else {*view.banned} - {event.number}
    if event.subject != "candidate" or banned == {*view.banned}:
        return {}
    return {"banned": tuple(sorted(banned)), **_ranked(view, _contenders(view), banned, event.number)}


def after_measuring(view: RunView, event: MeasuredAgain) -> dict[str, Any]:
    """What changes in the view by a candidate's new score, by field."""
    score, number = event.score, event.candidate
    known = [
        replace(contender, score=score) if score is not None and contender.candidate == number else contender
        for contender in _contenders(view)
    ]
    if score is not None:
        return _ranked(view, known, {*view.banned}, number)
    outcomes = {**view.outcomes, "ok": view.outcomes["ok"] - 1, event.outcome: view.outcomes.get(event.outcome, 0) + 1}
    left = [contender for contender in known if contender.candidate != number]
    return {"outcomes": outcomes, **_ranked(view, left, {*view.banned}, number)}


def _contenders(view: RunView) -> list[Best]:
    return [*([view.best] if view.best is not None else []), *view.behind]


def _ranked(view: RunView, known: Sequence[Best], banned: set[int], number: int) -> dict[str, Any]:
    """The fields of the view that follow from these candidates. The one of this number has changed."""
    ranked = sorted(known, key=cmp_to_key(lambda contender, other: -1 if _stands_above(view, contender, other) else 1))
    best = next((contender for contender in ranked if contender.candidate not in banned), None)
    if best is None and view.seed_score is not None:
        best = Best(0, view.seed_score, 0, "", 0, view.last_at)
    fields: dict[str, Any] = {"best": best, "behind": tuple(contender for contender in ranked if contender is not best)}
    since = next((contender.after for contender in _contenders(view) if contender.candidate == number), None)
    if since is None:
        return fields
    curve = [point for point in view.improvements if point[0] < since]
    for contender in sorted(ranked, key=lambda contender: contender.after):
        above = not curve or view.header.fitness.better(contender.score, curve[-1][1])
        if contender.after >= since and contender.candidate not in banned and above:
            curve.append((contender.after, contender.score))
    return {**fields, "improvements": tuple(curve)}


def _stands_above(view: RunView, one: Best, other: Best) -> bool:
    """Whether one has the better rank. Of equal ones it is the older."""
    a, b = (one.score, one.fresh), (other.score, other.fresh)
    fitness, by_confirmed = view.header.fitness, view.header.by_confirmed
    if ranks_above(fitness, a, b, by_confirmed=by_confirmed):
        return True
    return one.candidate < other.candidate and not ranks_above(fitness, b, a, by_confirmed=by_confirmed)
