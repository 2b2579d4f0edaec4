"""Questions of people and commands about a run. Each is a function of one open connection and returns plain values.

Answers within one transaction agree with each other. Nothing here writes.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select, text

from pace_async.durable import DISK_FAULTS
from pace_async.errors import UsageError
from pace_async.events import AdvisorCall, Role
from pace_async.population.models import (
    CandidateRow,
    FaultRow,
    GroupRow,
    ImplementerCallRow,
    LeaseRow,
    RunRow,
    RunStateRow,
    VersionRow,
)
from pace_async.population.reading.candidates import candidates_with_experiments, columns
from pace_async.population.reading.confirmed import best_candidate, equal_to_best, repeats_in, repeats_of
from pace_async.population.reading.curves import reports_of, saved_by
from pace_async.population.reading.epochs import last_lease_before
from pace_async.population.reading.implementers_chosen import choices_of, models_of_bandit, results_of, tally
from pace_async.population.reading.inbox import marks_of
from pace_async.population.reading.load import closings_of, find_run, state_of_run
from pace_async.population.reading.machines import machines_of
from pace_async.population.reading.programs import whole_or_none
from pace_async.population.reading.progress import causes_of, outcomes_of
from pace_async.population.reading.read_facts import advice_of, evaluations_of, fresh_of, practices_of, stages_of
from pace_async.population.reading.read_spending import changes_of, spend_by_role, spend_of, tries_of, unpriced_of
from pace_async.search.repeats import Spread
from pace_async.state.apply import practice_with

WAITS = {
    "all_providers_down": "no model answers",
    "provider_back": "",
    "engine_died": "the advisor engine is down",
    "engine_hung": "the advisor engine is down",
    "engine_back": "",
    **DISK_FAULTS,
    "disk_back": "",
}
"""Kinds of faults that begin a wait of the whole run, with its description, or end it (empty)."""

_PROGRAM = (
    *("candidate", "island", "parent", "outcome", "score", "reward", "mechanism", "detail", "seconds", "memoised"),
    *("at", "program_hash", "program", "lease_state", "lease_stage", "admitted_version", "policy_version"),
    *("group_number", "update_number", "staleness", "advantage", "idea_number", "idea", "experiment", "cost_usd"),
)


def rows_of(connection: Connection, sql: str, parameters: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
    """Rows of one statement, column name to value. `:name` stands for a parameter."""
    result = connection.execute(text(sql), parameters or {})
    names = list(map(str, result.keys()))
    return [dict(zip(names, row, strict=True)) for row in result]


def conservation(connection: Connection, run: str | None = None) -> dict[str, int]:
    """admitted, trained, skipped, aborted, expired, open (the first is always the sum of the others), and
    max_trained_staleness (0 if nothing was trained)."""
    run_id = find_run(connection, run)
    counts = closings_of(connection, run_id)
    oldest = select(func.max(LeaseRow.staleness)).where(LeaseRow.run_id == run_id, LeaseRow.state == "trained")
    return {
        "admitted": sum(counts.values()),
        **{state: counts[state] for state in ("trained", "skipped", "aborted", "expired", "open")},
        "max_trained_staleness": connection.execute(oldest).scalar_one() or 0,
    }


def status(connection: Connection, run: str | None = None) -> dict[str, Any]:
    """How far a run is.

    `candidates` counts evaluated rollouts without the task's own program. `outcomes` counts them by
    outcome, and `scored` those with a score. `causes` counts the others by cause, while hardly any has a score.
    `updates` counts ended groups, skipped ones too, as `--updates` does. `versions_published` leaves out version 0.
    `best_score` is null before the first score,
    and `best_fresh_score` is null if the best was not tried on fresh instances. `state` is the last committed state.
    `waiting` is null, or what the whole run waits for and since when, according to the rows. `failing` lists the stages
    that fail at every try, each with its reason and start, of a run that is driven or gave up.
    `spend_usd` is null if the price of some calls is not known, and `spend_known_usd` is the cost of the others.
    `trust` is "shared" if programs can reach what scores them, else "hidden". `longest_stall_ms` and
    `longest_turn_cpu_ms` are the longest turns of the event loop, null until measured. `implementers` has the results
    of the models that a bandit chose, by kind of experiment, and `nodes` what ran on each machine of a cluster.
    `evaluation_saved` is the estimated share of the seconds of evaluations that early ends saved, null if none ended
    early. `repeats` counts the scores of programs that were measured again, but for the first of each."""
    run_id = find_run(connection, run)
    complete = (CandidateRow.run_id == run_id,)
    counted = select(GroupRow.state, func.count()).where(GroupRow.run_id == run_id).group_by(GroupRow.state)
    groups = {str(state): int(number) for state, number in connection.execute(counted)}
    restored = select(VersionRow).where(VersionRow.run_id == run_id, VersionRow.restored.is_not(None))
    first = select(CandidateRow.candidate, CandidateRow.score)
    chosen = CandidateRow.candidate == best_candidate(connection, run_id)
    best = connection.execute(first.where(*complete, chosen)).one_or_none()
    outcomes = outcomes_of(connection, run_id)
    scored = outcomes.get("ok", 0)
    state, reason = state_of_run(connection, run_id)
    unpriced = unpriced_of(connection, run_id)
    run_row = connection.execute(select(RunRow).where(RunRow.run_id == run_id)).one()
    return {
        "candidates": sum(outcomes.values()),
        "scored": scored,
        "outcomes": outcomes,
        "causes": causes_of(connection, run_id, scored),
        "updates": groups.get("trained", 0) + groups.get("skipped", 0),
        "versions_published": _count(
            connection, run_id, VersionRow, VersionRow.state == "published", VersionRow.version > 0
        ),
        "best_score": None if best is None else best.score,
        "best_fresh_score": None if best is None else _confirmed(connection, run_id, best.candidate),
        **conservation(connection, run),
        "spend_usd": None if unpriced else spend_of(connection, run_id),
        "spend_known_usd": spend_of(connection, run_id),
        "spend_by_role": {
            role: None if role in unpriced else usd for role, usd in spend_by_role(connection, run_id).items()
        },
        "state": state,
        "reason": reason,
        "trust": run_row.trust,
        "waiting": _waiting(connection, run_id) if state in ("running", "draining") else None,
        "failing": _failing(connection, run_id) if state in ("running", "draining", "gave_up") else [],
        "longest_stall_ms": run_row.longest_stall_ms,
        "longest_turn_cpu_ms": run_row.longest_turn_cpu_ms,
        "nodes": machines_of(connection, run_id),
        "evaluation_saved": saved_by(connection, run_id).share,
        "repeats": repeats_in(connection, run_id),
        "groups_trained": groups.get("trained", 0),
        "groups_skipped": groups.get("skipped", 0),
        "rollbacks": [
            {"version": row.version, "restored": row.restored, "group": row.group_number, "at": row.written_at}
            for row in connection.execute(restored.order_by(VersionRow.version))
        ],
        "steps_shortened": _count(connection, run_id, GroupRow, GroupRow.step_scale > 0, GroupRow.step_scale < 1),
        "steps_undone": _count(connection, run_id, GroupRow, GroupRow.step_scale == 0),
        "implementers": tally(
            [result for by_lease in results_of(connection, run_id).values() for result in by_lease.values()],
            models_of_bandit(run_row.config, changes_of(connection, run_id)),
            unpriced="implementer" in unpriced,
        ),
    }


def _count(connection: Connection, run_id: int, table: Any, *which: ColumnElement[bool]) -> int:
    return connection.execute(select(func.count()).where(table.run_id == run_id, *which)).scalar_one()


def _waiting(connection: Connection, run_id: int) -> dict[str, Any] | None:
    """What a driven run waits for according to its rows, and since when, None if nothing. Faults of earlier processes
    do not count."""
    begun = select(func.max(RunStateRow.at)).where(RunStateRow.run_id == run_id, RunStateRow.state == "running")
    row = connection.execute(
        select(FaultRow.kind, FaultRow.at)
        .where(FaultRow.run_id == run_id, FaultRow.kind.in_(WAITS), FaultRow.at >= begun.scalar_subquery())
        .order_by(FaultRow.number.desc())
        .limit(1)
    ).one_or_none()
    words = None if row is None else WAITS[row.kind]
    return None if row is None or not words else {"for": words, "since": row.at}


def _failing(connection: Connection, run_id: int) -> list[dict[str, Any]]:
    """The stages whose last pause, in the last process that drove the run, has not ended."""
    begun = select(func.max(RunStateRow.at)).where(RunStateRow.run_id == run_id, RunStateRow.state == "running")
    rows = connection.execute(
        select(FaultRow.stage, FaultRow.kind, FaultRow.detail, FaultRow.at)
        .where(
            FaultRow.run_id == run_id,
            FaultRow.kind.in_(("stage_paused", "stage_back")),
            FaultRow.at >= begun.scalar_subquery(),
        )
        .order_by(FaultRow.number)
    )
    latest = {row.stage: row for row in rows}
    return [
        {"stage": row.stage, "why": row.detail, "since": row.at}
        for row in latest.values()
        if row.kind == "stage_paused"
    ]


def best(connection: Connection, run: str | None = None) -> dict[str, Any]:
    """The best program and its origin. `fresh_score` is its score on the fresh instances that confirmed it, null if it
    was not tried. `noise` is what two evaluations of one program usually differ by, and `equal` are the candidates that
    differ from the best by no more, of a run whose best is chosen by a second evaluation. Raises UsageError before the
    first score."""
    run_id = find_run(connection, run)
    number = best_candidate(connection, run_id)
    row = None if number is None else _program(connection, run_id, CandidateRow.candidate == number)
    if row is None:
        raise UsageError("The run has no program with a score yet.")
    equals = equal_to_best(connection, run_id, row["candidate"])
    confirmed = _confirmed(connection, run_id, row["candidate"])
    return {**row, "fresh_score": confirmed, "noise": equals.noise, "equal": list(equals.candidates)}


def show(connection: Connection, candidate: int, run: str | None = None) -> dict[str, Any]:
    """One candidate: the program, its idea and experiment, its parent, its reward, its wait for a slot, the advisor's
    calls (text, versions as [version, start, end] by token), the calls that were paid for the advisor and for the
    implementer, the model that a bandit chose with the reason (null without a bandit), the models' answers, try by try,
    its results in practice, in the cheap stages of a cascade and on fresh instances, and what its evaluation reported,
    if there is any of it. Raises UsageError if there is no such candidate."""
    run_id = find_run(connection, run)
    last = select(func.coalesce(func.max(CandidateRow.candidate), -1)).where(CandidateRow.run_id == run_id)
    newest = connection.execute(last).scalar_one()
    # beyond the database's integers
    row = _program(connection, run_id, CandidateRow.candidate == candidate) if candidate <= newest else None
    if row is None:
        known = f"the newest is {newest}" if newest >= 0 else "it has none yet"
        raise UsageError(f"The run has no candidate {candidate}; {known}.")
    evaluated = evaluations_of(connection, run_id, [candidate])[candidate]
    advice = advice_of(connection, run_id, [candidate]).get(candidate)
    chosen = choices_of(connection, run_id, [candidate]).get(candidate)
    practice = practices_of(connection, run_id, [candidate]).get(candidate)
    practice = practice_with(row["program"] or "", practice)
    statement = select(ImplementerCallRow).where(
        ImplementerCallRow.run_id == run_id, ImplementerCallRow.lease == candidate
    )
    paid = connection.execute(statement.order_by(ImplementerCallRow.ordinal)).all()
    calls = advice.calls if advice is not None else ()
    unpriced = unpriced_of(connection, run_id)
    curve, reporter = reports_of(connection, run_id, candidate)
    mark, mark_after = marks_of(connection, run_id, "candidate").get(candidate, (None, None))
    # an expected cost of nothing is unknown for a model without a price
    unknown = chosen is not None and chosen.usd == 0 and "implementer" in unpriced
    return {
        **row,
        "metrics": evaluated.metrics,
        "queue_seconds": evaluated.queue_seconds,
        "feedback": evaluated.feedback,
        "practice": asdict(practice) if practice is not None else None,
        "cascade": [
            {"number": ended.number, **asdict(ended.score)}
            for ended in stages_of(connection, run_id, [candidate]).get(candidate, ())
        ],
        "fresh_scores": [attempt.as_json() for attempt in evaluated.fresh],
        "curve": curve,
        "reported_by": reporter,
        "calls": [
            {
                "purpose": call.purpose,
                "text": call.text,
                "prompt_tokens": tokens[0],
                "completion_tokens": tokens[1],
                "versions": [[span.version, span.start, span.end] for span in call.spans],
                "seconds": call.seconds,
            }
            for call, tokens in zip(calls, _tokens_of(calls, paid), strict=True)
        ],
        "implementer_calls": [_paid_call(row, unpriced) for row in paid if row.role == "implementer"],
        "advisor_calls": [_paid_call(row, unpriced) for row in paid if row.role == "advisor"],
        "chosen": None if chosen is None else asdict(chosen) | ({"usd": None} if unknown else {}),
        "tries": [asdict(attempt) for attempt in tries_of(connection, run_id, candidate)],
        "mark": mark or None,
        "mark_after": mark_after,
    }


def _tokens_of(calls: Sequence[AdvisorCall], paid: Sequence[Any]) -> list[tuple[int, int]]:
    """Tokens of each call's question and answer, as sampled here or as a provider counted them. 0 if neither is
    known."""
    counted = [
        (row.prompt_tokens, row.completion_tokens) for row in paid if row.role == "advisor" and row.outcome == "ok"
    ]
    if any(call.prompt_ids for call in calls) or len(counted) != len(calls):
        return [(len(call.prompt_ids), len(call.completion_ids)) for call in calls]
    return counted


def _paid_call(row: Any, unpriced: Collection[Role]) -> dict[str, Any]:
    unknown = row.role in unpriced and row.cost_usd == 0 and row.prompt_tokens + row.completion_tokens > 0
    return {
        "model": row.model,
        "outcome": row.outcome,
        "prompt_tokens": row.prompt_tokens,
        "completion_tokens": row.completion_tokens,
        "cost_usd": None if unknown else row.cost_usd,
        "seconds": row.seconds,
    }


def _confirmed(connection: Connection, run_id: int, candidate: int) -> float | None:
    """The score of the try that confirmed a claim, by the evaluator in force."""
    if candidate <= last_lease_before(connection, run_id):
        return None
    tries = fresh_of(connection, run_id, [candidate]).get(candidate, ())
    return next((fresh_score.score for fresh_score in tries if fresh_score.held), None)


def _program(connection: Connection, run_id: int, which: ColumnElement[bool]) -> dict[str, Any] | None:
    """The candidate, by the names that commands print, and how many evaluations its score is the mean of."""
    expressions = columns(*_PROGRAM, unpriced=unpriced_of(connection, run_id))
    statement = candidates_with_experiments(*expressions).where(CandidateRow.run_id == run_id, which)
    row = connection.execute(statement).mappings().one_or_none()
    if row is None:
        return None
    scores = repeats_of(connection, run_id, row["candidate"]) if row["score"] is not None else ()
    return {
        **{str(name): value for name, value in row.items()},
        "program": whole_or_none(connection, run_id, row["program"]),
        **asdict(Spread.of(scores)),
    }
