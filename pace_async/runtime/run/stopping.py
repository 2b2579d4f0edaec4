"""When a run ends: a pure decision over counts, whichever rule is met first."""

from dataclasses import dataclass
from typing import Literal

from pace_async.config import StopConfig
from pace_async.reward import better

Reason = Literal["candidates", "updates", "minutes", "budget", "target", "interrupted"]


@dataclass(frozen=True, slots=True)
class Progress:
    """What stop rules look at. `groups` counts skipped ones too."""

    candidates: int
    groups: int
    minutes: float
    spend_usd: float
    best: float | None


def reason_to_stop(stop: StopConfig, progress: Progress, direction: str) -> Reason | None:
    """The first rule that is met, or None."""
    if stop.target is not None and progress.best is not None and not better(direction, stop.target, progress.best):
        return "target"
    rules: tuple[tuple[Reason, float | None, float], ...] = (
        ("budget", stop.budget, progress.spend_usd),
        ("candidates", stop.candidates, progress.candidates),
        ("updates", stop.updates, progress.groups),
        ("minutes", stop.minutes, progress.minutes),
    )
    for reason, limit, value in rules:
        if limit is not None and value >= limit:
            return reason
    return None


def trains_leftovers(reason: Reason) -> bool:
    """Whether groups that are complete when the last candidate ends are still trained."""
    return reason in ("candidates", "target", "budget")


def default_horizon(stop: StopConfig, group_size: int) -> int:
    """Groups over which alpha grows, where the configuration names none: what the stop rules allow, else 100."""
    limits = [limit for limit in (stop.updates, (stop.candidates or 0) // group_size) if limit]
    return max(1, min(limits)) if limits else 100
