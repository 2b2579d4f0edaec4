"""Where a run's time goes: how busy its threads are, its bottleneck, and what would help.

Pure. Invariant: the screen, the closing summary and `pace status` give the same advice at the same moment. All take it
from `Ledger.limits`, whether the ledger was folded from events, as in a run's view, or read from rows
(`ledger_of_rows`). Not a forecast: `pace simulate` predicts another shape.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pace_async.events import (
    Advised,
    Evaluated,
    Fact,
    GroupEnded,
    ImplementerCalled,
    LeaseAborted,
    LeaseOpened,
    RunHeader,
    VersionPublished,
)
from pace_async.frozen_values import changed
from pace_async.observe.roofline import Load, Roofline, advice, roofline
from pace_async.population.timings import CALLS_COUNTED, ROLLOUTS_TIMED, RolloutTimes, Timings
from pace_async.registry.evaluators import EVALUATORS
from pace_async.registry.objectives import trains
from pace_async.registry.staleness_policies import policy_of


@dataclass(frozen=True)
class Ledger:
    """Stage seconds of a run. `opened` holds when each lease in flight opened, `handed` when it last got a
    model's answer. `rollouts` are the last ROLLOUTS_TIMED durations from lease to score, without the wait for a slot.
    `busy` is the thread seconds of all that have ended in this process. `carried` holds since when each lease is in
    flight here that an earlier process opened, and that times no rollout. `learning` and `push` are the seconds of the
    last step and push."""

    opened: Mapping[int, float] = field(default_factory=dict[int, float])
    handed: Mapping[int, float] = field(default_factory=dict[int, float])
    carried: Mapping[int, float] = field(default_factory=dict[int, float])
    rollouts: tuple[float, ...] = ()
    evaluations: tuple[float, ...] = ()
    busy: float = 0.0
    learning: float = 0.0
    push: float = 0.0
    answers: tuple[bool, ...] = ()

    def after(self, event: Fact) -> "Ledger":
        """The ledger after one more event."""
        match event:
            case LeaseOpened():
                return changed(self, opened={**self.opened, event.lease: event.at})
            case Advised() if event.lease in self.opened:
                return self._handed(event.lease, event.at)
            case ImplementerCalled() if event.role != "notes":
                answers = () if event.got_answer is None else (event.got_answer,)
                ledger = changed(self, answers=(*self.answers, *answers)[-CALLS_COUNTED:])
                return ledger._handed(event.lease, event.at) if event.lease in self.opened else ledger
            case Evaluated() if event.lease in self.opened:
                whole = event.at - self.opened[event.lease]
                evaluation = event.seconds + sum(attempt.seconds for attempt in event.fresh)
                since_answer = event.at - self.handed.get(event.lease, event.at)
                return self._closed(event.lease, whole).timed(RolloutTimes(whole, evaluation, since_answer))
            case LeaseAborted() if event.lease in self.opened:
                return self._closed(event.lease, event.at - self.opened[event.lease])
            case Evaluated() | LeaseAborted() if event.lease in self.carried:
                carried = {lease: at for lease, at in self.carried.items() if lease != event.lease}
                return changed(self, carried=carried, busy=self.busy + event.at - self.carried[event.lease])
            case GroupEnded() if event.closing == "trained":
                return changed(self, learning=event.seconds)
            case VersionPublished():
                return changed(self, push=event.seconds)
            case _:
                return self

    def resumed(self, at: float) -> "Ledger":
        """The ledger of a process that begins at this time: what was timed stays, and what was in flight goes on."""
        return changed(self, opened={}, handed={}, carried=dict.fromkeys((*self.carried, *self.opened), at), busy=0.0)

    def _handed(self, lease: int, at: float) -> "Ledger":
        return changed(self, handed={**self.handed, lease: at})

    def timed(self, times: RolloutTimes) -> "Ledger":
        """The ledger after one more complete rollout, from a fact of this process or from its row."""
        return changed(
            self,
            rollouts=(*self.rollouts, times.whole - times.waited)[-ROLLOUTS_TIMED:],
            evaluations=(*self.evaluations, times.evaluation)[-ROLLOUTS_TIMED:],
        )

    def _closed(self, lease: int, seconds: float) -> "Ledger":
        opened, handed = (
            {key: at for key, at in times.items() if key != lease} for times in (self.opened, self.handed)
        )
        return changed(self, opened=opened, handed=handed, busy=self.busy + seconds)

    def utilisation(self, threads: int, elapsed: float, now: float) -> float | None:
        """The share of the threads' time with a lease, None before anything was timed."""
        if elapsed <= 0 or not self.rollouts:
            return None
        busy = self.busy + sum(now - at for at in (*self.opened.values(), *self.carried.values()))
        return min(1.0, max(0.0, busy / (threads * elapsed)))

    def limits(self, header: RunHeader, busy: float | None = None) -> Roofline | None:
        """The roofline of the timed stages. None until a rollout was timed and, in a run that trains, a learning step:
        the bottleneck could be a stage without a time. `busy` is the share of the threads' time with a lease."""
        if trains(header.objective) and policy_of(header.policy).counts_running and not self.learning:
            return None
        limits = _limits(header, self)
        return limits and replace(limits, busy=busy)


def ledger_of(timings: Timings) -> Ledger:
    """The ledger of the rows, in which no lease is in flight and no process has begun."""
    ledger = Ledger(learning=timings.learning, push=timings.push, answers=timings.answers)
    for times in timings.rollouts:
        ledger = ledger.timed(times)
    return ledger


def ledger_of_rows(timings: Timings, header: RunHeader) -> dict[str, Any]:
    """`slot_utilisation` (share of the threads' time), `candidates_per_hour`, `roofline` (the same unit), `binding` and
    `advice` (one sentence). Each is None before the first candidate, and the last three as long as `Ledger.limits` is.
    Time without a driving process does not count, nor do rollouts interrupted by it. `header` has the settings in
    force."""
    elapsed = timings.driven
    timed = bool(timings.rollouts) and elapsed > 0
    busy = min(1.0, timings.busy / (header.threads * elapsed)) if timed else None
    limits = ledger_of(timings).limits(header, busy)
    return {
        "slot_utilisation": busy,
        "candidates_per_hour": 3600.0 * timings.candidates / elapsed if timed else None,
        "roofline": 3600.0 * limits.limit if limits is not None else None,
        "binding": limits.binding if limits is not None else None,
        "advice": advice(limits, header.max_staleness) if limits is not None else None,
    }


def _limits(header: RunHeader, ledger: Ledger) -> Roofline | None:
    evaluations, settings = ledger.evaluations, header.config.get("evaluation")
    evaluation = cast("dict[str, Any]", settings) if isinstance(settings, dict) else {}
    name = evaluation.get("evaluators", "")
    elsewhere = name in EVALUATORS and EVALUATORS[name].elsewhere  # other machines have processors of their own
    return roofline(
        Load(
            threads=header.threads,
            group_size=header.group_size,
            bound=header.max_staleness,
            rollouts=ledger.rollouts,
            evaluation=sum(evaluations) / len(evaluations) if evaluations else 0.0,
            learning=ledger.learning,
            push=ledger.push,
            slots=evaluation.get("slots"),
            trains=trains(header.objective),
            policy=header.policy,
            shares_processors=header.shares_trust and not elsewhere,
            unanswered=ledger.answers.count(False) / len(ledger.answers) if ledger.answers else 0.0,
        )
    )
