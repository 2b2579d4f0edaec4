"""How far the run is along each of its stop rules.

Pure. The rule with the greatest share ends the run first if the pace stays the same.
"""

from dataclasses import dataclass

from pace_async.observe import formatting
from pace_async.observe.model import RunView
from pace_async.state.stop_rules import StopRule, StopValues, limits_of


@dataclass(frozen=True, slots=True)
class RuleProgress:
    """One stop rule: the `share` of it used, in [0, 1], and the same in words. `seconds_left` where it is known."""

    rule: str
    share: float
    words: str
    seconds_left: float | None = None


def progress(view: RunView, now: float) -> tuple[RuleProgress, ...]:
    """Every stop rule that is set and shown, the furthest along first."""
    rules = [_of(rule, limit, view, now) for rule, limit in limits_of(view.stop).items() if rule.shown]
    return tuple(sorted(rules, key=lambda rule: -rule.share))


def _of(rule: StopRule, limit: float, view: RunView, now: float) -> RuleProgress:
    done = rule.done(_values(view, now)) or 0
    if rule.unit == "score":
        return RuleProgress(rule.name, _towards(view, limit), f"target {formatting.score(limit)}")
    if rule.unit == "minute":
        text = f"{formatting.duration(60 * done)} of {formatting.duration(60 * limit)}"
        return RuleProgress(rule.name, _share(done, limit), text, max(0.0, 60 * (limit - done)))
    if rule.unit == "USD":
        return RuleProgress(rule.name, _share(done, limit), f"{formatting.usd(done)} of {formatting.usd(limit)}")
    text = f"{done:,} of {formatting.count(int(limit), rule.unit)}"
    rate = view.per_minute(now) if rule.unit == "candidate" else 0.0
    return RuleProgress(rule.name, _share(done, limit), text, 60.0 * max(0, limit - done) / rate if rate else None)


def _values(view: RunView, now: float) -> StopValues:
    best = view.best
    return StopValues(
        candidates=view.candidates,
        groups=view.groups,
        minutes=view.elapsed(now) / 60,
        spend_usd=view.spend_usd,
        best=None if best is None else best.score,
    )


def _towards(view: RunView, target: float) -> float:
    if view.best is None:
        return 0.0
    first = view.seed_score if view.seed_score is not None else view.improvements[0][1]
    if view.header.fitness.reaches(view.best.score, target):
        return 1.0
    return _share(view.best.score - first, target - first)


def _share(done: float, whole: float) -> float:
    return min(1.0, max(0.0, done / whole)) if whole else 0.0
