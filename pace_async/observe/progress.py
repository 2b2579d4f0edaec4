"""How far the run is along each of its stop rules.

Pure. The rule with the greatest share ends the run first if the pace stays the same.
"""

from dataclasses import dataclass

from pace_async.observe import formatting
from pace_async.observe.model import RunView


@dataclass(frozen=True, slots=True)
class RuleProgress:
    """One stop rule: the `share` of it used, in [0, 1], and the same in words. `seconds_left` where it is known."""

    rule: str
    share: float
    words: str
    seconds_left: float | None = None


def progress(view: RunView, now: float) -> tuple[RuleProgress, ...]:
    """Every stop rule that is set, the furthest along first."""
    stop, rules = view.stop, list[RuleProgress]()
    if stop.candidates is not None:
        left = max(0, stop.candidates - view.candidates)
        rate = view.per_minute(now)
        seconds = 60.0 * left / rate if rate else None
        text = f"{view.candidates:,} of {formatting.count(stop.candidates, 'candidate')}"
        rules.append(RuleProgress("candidates", _share(view.candidates, stop.candidates), text, seconds))
    if stop.updates is not None:
        text = f"{view.groups:,} of {formatting.count(stop.updates, 'update')}"
        rules.append(RuleProgress("updates", _share(view.groups, stop.updates), text))
    if stop.minutes is not None:
        elapsed, limit = view.elapsed(now), 60.0 * stop.minutes
        text = f"{formatting.duration(elapsed)} of {formatting.duration(limit)}"
        rules.append(RuleProgress("minutes", _share(elapsed, limit), text, max(0.0, limit - elapsed)))
    if stop.budget is not None:
        text = f"{formatting.usd(view.spend_usd)} of {formatting.usd(stop.budget)}"
        rules.append(RuleProgress("budget", _share(view.spend_usd, stop.budget), text))
    if stop.target is not None:
        rules.append(RuleProgress("target", _towards(view, stop.target), f"target {formatting.score(stop.target)}"))
    return tuple(sorted(rules, key=lambda rule: -rule.share))


def _towards(view: RunView, target: float) -> float:
    if view.best is None:
        return 0.0
    first = view.seed_score if view.seed_score is not None else view.improvements[0][1]
    if view.best.score == target or (view.best.score > target) == (view.header.direction == "maximize"):
        return 1.0
    return _share(view.best.score - first, target - first)


def _share(done: float, whole: float) -> float:
    return min(1.0, max(0.0, done / whole)) if whole else 0.0
