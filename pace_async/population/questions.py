"""What people and commands ask of a run. Each question is a function of one open connection and gives plain values.

Asked of one transaction, several answers agree with one another. Nothing here writes.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select, text

from pace_async.durable import DISK_FAULTS
from pace_async.errors import UsageError
from pace_async.population.implementers_chosen import choices_of, results_of, tally
from pace_async.population.load import closings_of, find_run, state_of_run
from pace_async.population.models import (
    CandidateRow,
    Fault,
    GroupRow,
    ImplementerCallRow,
    LeaseRow,
    Run,
    RunState,
    VersionRow,
)
from pace_async.population.read_facts import advice_of, fresh_of, stages_of
from pace_async.population.read_spending import spend_of, tries_of

WAITS = {
    "all_providers_down": "no model answers",
    "provider_back": "",
    "engine_died": "the advisor engine is down",
    "engine_hung": "the advisor engine is down",
    "engine_back": "",
    **DISK_FAULTS,
    "disk_back": "",
}
"""Kinds of faults that begin or end (no words) a wait of the whole run."""

_PROGRAM = """
SELECT c.candidate, c.island, c.parent, c.outcome, c.score, c.reward, c.mechanism, c.detail, c.seconds, c.memoised,
       c.at, c.program_hash, c.program, l.state AS lease_state, l.stage AS lease_stage, l.admitted_version,
       l.oldest_version AS policy_version, l.group_number, l.trained_by AS update_number, l.staleness, l.advantage,
       e.idea AS idea_number, i.description AS idea, e.description AS experiment,
       COALESCE((SELECT SUM(p.cost_usd) FROM implementer_calls p
                 WHERE p.run_id = c.run_id AND p.lease = c.lease), 0.0) AS cost_usd
FROM candidates c
LEFT JOIN leases l ON l.run_id = c.run_id AND l.lease = c.lease
LEFT JOIN experiments e ON e.run_id = c.run_id AND e.lease = c.lease
LEFT JOIN ideas i ON i.run_id = e.run_id AND i.island = e.island AND i.idea = e.idea
WHERE c.run_id = :run_id AND {which}
"""


def rows_of(connection: Connection, sql: str, parameters: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
    """Rows of one statement, column name to value; `:name` stands for a parameter."""
    found = connection.execute(text(sql), parameters or {})
    names = list(map(str, found.keys()))
    return [dict(zip(names, row, strict=True)) for row in found]


def conservation(connection: Connection, run: str | None = None) -> dict[str, int]:
    """admitted, trained, skipped, aborted, expired, open (the first is the sum of the others, always), and
    max_trained_staleness (0 where nothing was trained)."""
    run_id = find_run(connection, run)
    counts = closings_of(connection, run_id)
    oldest = select(func.max(LeaseRow.staleness)).where(LeaseRow.run_id == run_id, LeaseRow.state == "trained")
    return {
        "admitted": sum(counts.values()),
        **{state: counts[state] for state in ("trained", "skipped", "aborted", "expired", "open")},
        "max_trained_staleness": connection.execute(oldest).scalar_one() or 0,
    }


def status(connection: Connection, run: str | None = None) -> dict[str, Any]:
    """How far a run is. `candidates` are rollouts evaluated (the task's own program not counted), `updates` groups that
    ended, skipped ones too, as `--updates` counts them; `versions_published` leaves out version 0; `best_score` is null
    before the first score, `best_fresh_score` where the best was not tried on fresh instances; `state` is the last
    committed; `waiting` is null, or what the whole run waits for and since when, as far as rows say; `failing` the
    stages that fail at every try, each with why and since when, of a run that is driven or gave up; `longest_stall_ms`
    and `longest_turn_cpu_ms` the longest turns of the event loop, null until they were measured; `implementers` what
    came of the models that a bandit chose, by kind of experiment."""
    run_id = find_run(connection, run)
    complete = (CandidateRow.run_id == run_id,)
    groups = {
        row.state: row.groups
        for row in connection.execute(
            select(GroupRow.state, func.count().label("groups"))
            .where(GroupRow.run_id == run_id)
            .group_by(GroupRow.state)
        )
    }
    published = select(func.count()).where(
        VersionRow.run_id == run_id, VersionRow.state == "published", VersionRow.version > 0
    )
    first = select(CandidateRow.candidate, CandidateRow.score).where(*complete, CandidateRow.merit.is_not(None))
    best = connection.execute(first.order_by(CandidateRow.merit.desc(), CandidateRow.candidate).limit(1)).one_or_none()
    state, reason = state_of_run(connection, run_id)
    return {
        "candidates": connection.execute(
            select(func.count()).where(*complete, CandidateRow.candidate > 0)
        ).scalar_one(),
        "updates": groups.get("trained", 0) + groups.get("skipped", 0),
        "versions_published": connection.execute(published).scalar_one(),
        "best_score": None if best is None else best.score,
        "best_fresh_score": None if best is None else _confirmed(connection, run_id, best.candidate),
        **conservation(connection, run),
        "spend_usd": spend_of(connection, run_id),
        "state": state,
        "reason": reason,
        "waiting": _waiting(connection, run_id) if state in ("running", "draining") else None,
        "failing": _failing(connection, run_id) if state in ("running", "draining", "gave_up") else [],
        **_turns(connection, run_id),
        "groups_trained": groups.get("trained", 0),
        "groups_skipped": groups.get("skipped", 0),
        "rollbacks": [
            {"version": row.version, "restored": row.restored, "group": row.group_number, "at": row.written_at}
            for row in connection.execute(
                select(VersionRow)
                .where(VersionRow.run_id == run_id, VersionRow.restored.is_not(None))
                .order_by(VersionRow.version)
            )
        ],
        "steps_shortened": _steps(connection, run_id, GroupRow.step_scale > 0, GroupRow.step_scale < 1),
        "steps_undone": _steps(connection, run_id, GroupRow.step_scale == 0),
        "implementers": tally([one for found in results_of(connection, run_id).values() for one in found.values()]),
    }


def _steps(connection: Connection, run_id: int, *which: ColumnElement[bool]) -> int:
    return connection.execute(select(func.count()).where(GroupRow.run_id == run_id, *which)).scalar_one()


def _turns(connection: Connection, run_id: int) -> dict[str, float | None]:
    """The longest turns of the event loop, null until they were measured."""
    row = connection.execute(select(Run.longest_stall_ms, Run.longest_turn_cpu_ms).where(Run.run_id == run_id)).one()
    return {"longest_stall_ms": row.longest_stall_ms, "longest_turn_cpu_ms": row.longest_turn_cpu_ms}


def _waiting(connection: Connection, run_id: int) -> dict[str, Any] | None:
    """What a run that is driven waits for, as its rows say, and since when; None if for nothing. A process begins
    without faults."""
    begun = select(func.max(RunState.at)).where(RunState.run_id == run_id, RunState.state == "running")
    row = connection.execute(
        select(Fault.kind, Fault.at)
        .where(Fault.run_id == run_id, Fault.kind.in_(WAITS), Fault.at >= begun.scalar_subquery())
        .order_by(Fault.number.desc())
        .limit(1)
    ).one_or_none()
    words = None if row is None else WAITS[row.kind]
    return None if row is None or not words else {"for": words, "since": row.at}


def _failing(connection: Connection, run_id: int) -> list[dict[str, Any]]:
    """The stages whose last pause, in the last process that drove the run, has not ended."""
    begun = select(func.max(RunState.at)).where(RunState.run_id == run_id, RunState.state == "running")
    rows = connection.execute(
        select(Fault.stage, Fault.kind, Fault.detail, Fault.at)
        .where(
            Fault.run_id == run_id,
            Fault.kind.in_(("stage_paused", "stage_back")),
            Fault.at >= begun.scalar_subquery(),
        )
        .order_by(Fault.number)
    )
    latest = {row.stage: row for row in rows}
    return [
        {"stage": row.stage, "why": row.detail, "since": row.at}
        for row in latest.values()
        if row.kind == "stage_paused"
    ]


def best(connection: Connection, run: str | None = None) -> dict[str, Any]:
    """The best program with where it came from; `fresh_score` is what it scored on the fresh instances that confirmed
    it, null where it was not tried. Raises UsageError while nothing has a score."""
    run_id = find_run(connection, run)
    which = "c.merit IS NOT NULL ORDER BY c.merit DESC, c.candidate LIMIT 1"
    found = rows_of(connection, _PROGRAM.format(which=which), {"run_id": run_id})
    if not found:
        raise UsageError("The run has no program with a score yet.")
    return {**_plain(found[0]), "fresh_score": _confirmed(connection, run_id, found[0]["candidate"])}


def show(connection: Connection, candidate: int, run: str | None = None) -> dict[str, Any]:
    """One candidate: the program, its idea and experiment, its parent, its reward, the advisor's calls (text, versions
    as [version, start, end] by token) and the implementer's, the model that a bandit chose and why (null where none
    did), what models answered, try by try, and how it did in the cheap stages of a cascade and on fresh instances,
    where it was tried on them. Raises UsageError if there is no such candidate."""
    run_id = find_run(connection, run)
    last = select(func.coalesce(func.max(CandidateRow.candidate), -1)).where(CandidateRow.run_id == run_id)
    newest = connection.execute(last).scalar_one()
    which, key = _PROGRAM.format(which="c.candidate = :candidate"), {"run_id": run_id, "candidate": candidate}
    # no database is asked for a number beyond its integers
    found = rows_of(connection, which, key) if candidate <= newest else []
    if not found:
        known = f"the newest is {newest}" if newest >= 0 else "it has none yet"
        raise UsageError(f"The run has no candidate {candidate}; {known}.")
    metrics = select(CandidateRow.metrics).where(CandidateRow.run_id == run_id, CandidateRow.candidate == candidate)
    advice = advice_of(connection, run_id, [candidate]).get(candidate)
    chosen = choices_of(connection, run_id, [candidate]).get(candidate)
    implementer = select(ImplementerCallRow).where(
        ImplementerCallRow.run_id == run_id, ImplementerCallRow.lease == candidate
    )
    return {
        **_plain(found[0]),
        "metrics": connection.execute(metrics).scalar_one(),
        "cascade": [
            {"number": ended.number, **asdict(ended.score)}
            for ended in stages_of(connection, run_id, [candidate]).get(candidate, ())
        ],
        "fresh_scores": [asdict(tried) for tried in fresh_of(connection, run_id, [candidate]).get(candidate, ())],
        "calls": [
            {
                "purpose": call.purpose,
                "text": call.text,
                "prompt_tokens": len(call.prompt_ids),
                "completion_tokens": len(call.completion_ids),
                "versions": [[span.version, span.start, span.end] for span in call.spans],
                "seconds": call.seconds,
            }
            for call in (advice.calls if advice is not None else ())
        ],
        "implementer_calls": [
            {
                "model": row.model,
                "outcome": row.outcome,
                "prompt_tokens": row.prompt_tokens,
                "completion_tokens": row.completion_tokens,
                "cost_usd": row.cost_usd,
                "seconds": row.seconds,
            }
            for row in connection.execute(implementer.order_by(ImplementerCallRow.ordinal))
        ],
        "chosen": asdict(chosen) if chosen is not None else None,
        "tries": [asdict(tried) for tried in tries_of(connection, run_id, [candidate]).get(candidate, ())],
    }


def _confirmed(connection: Connection, run_id: int, candidate: int) -> float | None:
    """The score of the try that bore a claim out."""
    tries = fresh_of(connection, run_id, [candidate]).get(candidate, ())
    return next((tried.score for tried in tries if tried.held), None)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "memoised": bool(row["memoised"])}
