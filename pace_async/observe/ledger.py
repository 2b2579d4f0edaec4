"""The live account of where a run's time goes: how busy its threads are, what binds it, and what would help.

Pure. The same figures come from the events of this process (`Ledger`, folded into the view) and from the rows of a run
(`ledger_of_rows`); both are put to `roofline`. Not a forecast: what another shape would reach, `pace simulate` says.
"""

import json
from collections.abc import Callable, Mapping, Sequence
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
from pace_async.observe.roofline import Load, Roofline, advice, roofline

ROLLOUTS_KEPT = 256

RUN = "select run_id from runs where name = :name"
WHOLE = "select count(*) as candidates from candidates where run_id = :run_id and lease is not null"
DRIVEN = """
from candidates c join leases l on l.run_id = c.run_id and l.lease = c.lease where c.run_id = :run_id
and not exists (select 1 from run_states s where s.run_id = :run_id and s.state = 'running'
                and s.at > l.opened_at and s.at < c.at)"""
BUSY = f"select sum(c.at - l.opened_at) as busy {DRIVEN}"
TIMES = f"""
select c.at - l.opened_at as whole,
       c.seconds + coalesce((select sum(f.seconds) from fresh_scores f
                             where f.run_id = c.run_id and f.candidate = c.candidate), 0) as evaluation,
       c.at - (select e.at from experiments e where e.run_id = c.run_id and e.lease = c.lease) as since_advice,
       c.at - (select max(i.at) from implementer_calls i where i.run_id = c.run_id and i.lease = c.lease) as since_call
{DRIVEN} order by c.candidate desc limit :kept"""
SLOTS = """
select after from setting_changes where run_id = :run_id and key = 'evaluation.slots' order by number desc limit 1"""
STEPS = """
select (select seconds from groups where run_id = :run_id and state = 'trained'
        order by group_number desc limit 1) as learning,
       (select seconds from versions where run_id = :run_id and version > 0 and seconds is not null
        order by version desc limit 1) as push,
       (select max(at) from candidates where run_id = :run_id) as last"""
STATES = "select state, at from run_states where run_id = :run_id order by number"


@dataclass(frozen=True, slots=True)
class Ledger:
    """Stage seconds of this process. `opened` are leases in flight, `handed` when they last had an answer of a model;
    `rollouts` the last ROLLOUTS_KEPT from lease to score, without the wait for a slot; `busy` the thread seconds of all
    that have ended; `learning` and `push` those of the last step and push."""

    opened: Mapping[int, float] = field(default_factory=dict[int, float])
    handed: Mapping[int, float] = field(default_factory=dict[int, float])
    rollouts: tuple[float, ...] = ()
    evaluations: tuple[float, ...] = ()
    busy: float = 0.0
    learning: float = 0.0
    push: float = 0.0

    def after(self, event: Fact) -> "Ledger":
        """With one more event."""
        match event:
            case LeaseOpened():
                return replace(self, opened={**self.opened, event.lease: event.at})
            case Advised() | ImplementerCalled() if event.lease in self.opened:
                return replace(self, handed={**self.handed, event.lease: event.at})
            case Evaluated() if event.lease in self.opened:
                seconds = event.at - self.opened[event.lease]
                evaluation = event.seconds + sum(tried.seconds for tried in event.fresh)
                waited = _waited(event.at - self.handed.get(event.lease, event.at), evaluation)
                return replace(
                    self._closed(event.lease, seconds),
                    rollouts=(*self.rollouts, seconds - waited)[-ROLLOUTS_KEPT:],
                    evaluations=(*self.evaluations, evaluation)[-ROLLOUTS_KEPT:],
                )
            case LeaseAborted() if event.lease in self.opened:
                return self._closed(event.lease, event.at - self.opened[event.lease])
            case GroupEnded() if event.closing == "trained":
                return replace(self, learning=event.seconds)
            case VersionPublished():
                return replace(self, push=event.seconds)
            case _:
                return self

    def _closed(self, lease: int, seconds: float) -> "Ledger":
        opened, handed = (
            {key: at for key, at in times.items() if key != lease} for times in (self.opened, self.handed)
        )
        return replace(self, opened=opened, handed=handed, busy=self.busy + seconds)

    def utilisation(self, threads: int, elapsed: float, now: float) -> float | None:
        """The share of the threads' time that had a lease in hand; None before anything was timed."""
        if elapsed <= 0 or not self.rollouts:
            return None
        busy = self.busy + sum(now - at for at in self.opened.values())
        return min(1.0, max(0.0, busy / (threads * elapsed)))

    def limits(self, header: RunHeader) -> Roofline | None:
        """What binds, from what was timed; None until a rollout was and, where something is trained, a step: before
        that the limit would be named without the stage that may be it."""
        if header.objective != "none" and header.policy != "drop" and not self.learning:
            return None
        return _limits(header, self.rollouts, self.evaluations, self.learning, self.push, _slots(header))


def ledger_of_rows(
    query: Callable[[str, Mapping[str, object]], Sequence[Mapping[str, Any]]], header: RunHeader
) -> dict[str, Any]:
    """`slot_utilisation` (share of the threads' time), `candidates_per_hour`, `roofline` (the same unit), `binding` and
    `advice` (one sentence); each None before the first candidate. Time in which no process drove the run does not
    count, nor do rollouts that were interrupted by it."""
    key: dict[str, object] = {"run_id": query(RUN, {"name": header.name})[0]["run_id"]}
    whole, busy, step = query(WHOLE, key)[0], query(BUSY, key)[0]["busy"], query(STEPS, key)[0]
    times = query(TIMES, {**key, "kept": ROLLOUTS_KEPT})
    evaluations = [float(row["evaluation"]) for row in times]
    rollouts = [float(row["whole"]) - _waited(_since(row), float(row["evaluation"])) for row in times]
    elapsed = _elapsed([(row["state"], row["at"]) for row in query(STATES, key)], step["last"])
    changed = query(SLOTS, key)
    slots = _slots(header) if not changed else json.loads(changed[0]["after"])
    found = _limits(header, rollouts, evaluations, step["learning"] or 0.0, step["push"] or 0.0, slots)
    timed = found is not None and elapsed > 0
    return {
        "slot_utilisation": min(1.0, (busy or 0.0) / (header.threads * elapsed)) if timed else None,
        "candidates_per_hour": 3600.0 * whole["candidates"] / elapsed if timed else None,
        "roofline": 3600.0 * found.limit if found is not None else None,
        "binding": found.binding if found is not None else None,
        "advice": advice(found, header.max_staleness) if found is not None else None,
    }


def _since(row: Mapping[str, Any]) -> float:
    """From a rollout's last answer of a model to its score."""
    since = [float(seconds) for seconds in (row["since_advice"], row["since_call"]) if seconds is not None]
    return min(since, default=0.0)


def _waited(since: float, evaluation: float) -> float:
    """Of the seconds since a rollout had its program, those in which it was not evaluated: it waited for a slot."""
    return max(0.0, since - evaluation)


def _slots(header: RunHeader) -> int | None:
    evaluation = header.config.get("evaluation")
    return cast("dict[str, Any]", evaluation).get("slots") if isinstance(evaluation, dict) else None


def _limits(
    header: RunHeader,
    rollouts: Sequence[float],
    evaluations: Sequence[float],
    learning: float,
    push: float,
    slots: int | None,
) -> Roofline | None:
    return roofline(
        Load(
            threads=header.threads,
            group_size=header.group_size,
            bound=header.max_staleness,
            rollouts=rollouts,
            evaluation=sum(evaluations) / len(evaluations) if evaluations else 0.0,
            learning=learning,
            push=push,
            slots=slots,
            trains=header.objective != "none",
            policy=header.policy,
        )
    )


def _elapsed(states: Sequence[tuple[str, float]], last: float | None) -> float:
    """Seconds in which a process drove the run. One that has not said how it ended counts up to the last candidate."""
    total, since = 0.0, None
    for state, at in states:
        if state == "running":
            since = at
        elif state != "draining" and since is not None:
            total, since = total + at - since, None
    return total + (max(0.0, last - since) if since is not None and last is not None else 0.0)
