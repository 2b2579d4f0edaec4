"""The figures of one fact, as a logger gets them.

Pure. Invariant: the facts of a run's journal, folded in their order, give the same records as the run gave live.
Excepted is the record of the task's own program, which is scored before the run has a logger.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from pace_async.events import Evaluated, GroupEnded, GroupShipped
from pace_async.observe.base import Event
from pace_async.observe.model import RunView
from pace_async.observe.watchers.base import Completion, Record
from pace_async.population.reading.said import RolloutAnswers

LONGEST = 20_000
"""Characters of a completion. A logger does not need more: the rows have all of it."""

SaidFor = Callable[[Sequence[int]], Mapping[int, RolloutAnswers]]
"""What was said for these leases, as far as it is known."""


def record_of(event: Event, view: RunView, began: float, rollouts_of: SaidFor) -> Record | None:
    """The record of an event, None if it has no figures. `view` is the one just after it, `began` when the run was
    made. `rollouts_of` gives what the advisor said for the leases of a group."""
    completions = ()
    match event:
        case Evaluated():
            return Record(
                "candidate", event.at, *_axes(view, event.at - began), values=_finite(_candidate(event, view))
            )
        case GroupShipped():
            ages = event.staleness
            values = {
                "learner/mean_reward": sum(event.rewards) / len(event.rewards),
                "learner/alpha": event.alpha,
                "learner/staleness_mean": sum(ages) / len(ages),
                "learner/staleness_max": max(ages),
            }
            completions = completions_of(event, rollouts_of(event.leases))
        case GroupEnded():
            values = {
                **{f"learner/{name}": value for name, value in event.metrics.items()},
                "learner/seconds": event.seconds if event.closing == "trained" else None,
                "learner/version": event.version,
                "run/candidates_per_minute": view.per_minute(event.at),
                "run/faults": view.faults,
            }
        case _:
            return None
    candidates, _, seconds, usd = _axes(view, event.at - began)
    return Record("update", event.at, candidates, event.update, seconds, usd, _finite(values), completions)


def _axes(view: RunView, seconds: float) -> tuple[int, int, float, float]:
    return view.candidates, view.learner.version, max(0.0, seconds), view.spend_usd


def _candidate(event: Evaluated, view: RunView) -> dict[str, float | None]:
    return {
        "search/best_score": None if view.best is None else view.best.score,
        "search/score": event.score,
        "search/reward": event.reward,
        "search/scored": view.scored,
        "search/evaluation_seconds": event.seconds,
        "cost/usd": None if view.unpriced else view.spend_usd,
    }


def _finite(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if value is not None and math.isfinite(value)}


def completions_of(group: GroupShipped, rollouts: Mapping[int, RolloutAnswers]) -> tuple[Completion, ...]:
    """A row for each rollout of a group. Unknown values are empty."""
    nothing = RolloutAnswers((), None)
    heard = [rollouts.get(lease, nothing) for lease in group.leases]
    advantages = group.advantages or (None,) * len(group.leases)
    return tuple(
        Completion(
            candidate=lease,
            staleness=age,
            reward=reward,
            advantage=advantage,
            outcome=rollout.outcome,
            score=rollout.score,
            experiment=rollout.experiment or "",
            completion="\n\n".join(rollout.answers)[:LONGEST],
        )
        for lease, age, reward, advantage, rollout in zip(
            group.leases, group.staleness, group.rewards, advantages, heard, strict=True
        )
    )
