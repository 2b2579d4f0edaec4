"""Turns rows back into the facts that wrote them. Each function takes ids and returns the facts by id.

A fact read back equals the written one, except for values that the database cannot hold: see `columns` (texts,
non-finite metrics) and `blobs` (log-probabilities are float32).
"""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping

from sqlalchemy import Connection, select

from pace_async.events import (
    Advised,
    AdvisorCall,
    CascadeScore,
    CascadeStageEnded,
    Claimed,
    Evaluated,
    FreshScore,
    IdeaNote,
    IdeaTaken,
    IslandActed,
    Practised,
)
from pace_async.population.blobs import unpack_ids, unpack_logprobs, unpack_spans
from pace_async.population.fields import fact_of
from pace_async.population.models import (
    AdvisorCallRow,
    CandidateRow,
    CascadeScoreRow,
    ClaimRow,
    EvaluationAttemptRow,
    ExperimentRow,
    FreshScoreRow,
    IdeaRow,
    IslandActionRow,
    PracticeRow,
    ProposalRow,
    SecretRow,
)
from pace_async.population.reading.epochs import last_lease_before
from pace_async.population.reading.programs import whole, whole_or_none
from pace_async.task import PRACTICE

NOTES_AT_A_TIME = 5000


def advice_of(
    connection: Connection, run_id: int, leases: Collection[int], with_calls: Collection[int] | None = None
) -> dict[int, Advised]:
    """The advisor's decisions, with their calls, or only those of the leases `with_calls`."""
    calls = answers_of(connection, run_id, leases if with_calls is None else with_calls)
    notes = notes_of(connection, run_id, leases)
    rows = connection.execute(
        select(ExperimentRow)
        .where(ExperimentRow.run_id == run_id, ExperimentRow.lease.in_(leases))
        .order_by(ExperimentRow.lease)
    )
    return {
        row.lease: fact_of(
            Advised,
            ExperimentRow,
            row,
            calls=tuple(calls.get(row.lease, ())),
            ideas=notes.get(row.lease, ()),
            experiment=row.description,
            covers=tuple(json.loads(row.covers)) if row.covers else (),
        )
        for row in rows
    }


def answers_of(connection: Connection, run_id: int, leases: Collection[int]) -> dict[int, list[AdvisorCall]]:
    """The advisor's calls, in order. Of a rollout that is not decided those that were paid for one by one."""
    calls: defaultdict[int, list[AdvisorCall]] = defaultdict(list)
    for row in connection.execute(
        select(AdvisorCallRow)
        .where(AdvisorCallRow.run_id == run_id, AdvisorCallRow.lease.in_(leases))
        .order_by(AdvisorCallRow.lease, AdvisorCallRow.ordinal)
    ):
        calls[row.lease].append(
            fact_of(
                AdvisorCall,
                AdvisorCallRow,
                row,
                prompt_ids=unpack_ids(row.prompt_ids, row.prompt_tokens),
                completion_ids=unpack_ids(row.completion_ids, row.completion_tokens),
                logprobs=unpack_logprobs(row.logprobs),
                spans=unpack_spans(row.spans),
                words=json.loads(row.words) if row.words else {},
            )
        )
    return calls


def notes_of(connection: Connection, run_id: int, leases: Collection[int] | None) -> dict[int, tuple[IdeaNote, ...]]:
    """The ideas that each rollout proposed, in order. Of every rollout if `leases` is None."""
    statement = select(ProposalRow).where(ProposalRow.run_id == run_id).order_by(ProposalRow.lease, ProposalRow.ordinal)
    if leases is not None:
        statement = statement.where(ProposalRow.lease.in_(leases))
    notes: defaultdict[int, list[IdeaNote]] = defaultdict(list)
    for row in connection.execute(statement.execution_options(yield_per=NOTES_AT_A_TIME)):
        notes[row.lease].append(IdeaNote(number=row.idea, description=row.description, known=row.known))
    return {lease: tuple(listed) for lease, listed in notes.items()}


def actions_of(connection: Connection, run_id: int) -> dict[int, IslandActed]:
    """Every action of an island, by the lease that opened with it."""
    ideas: defaultdict[int, list[IdeaTaken]] = defaultdict(list)
    for row in connection.execute(
        select(IdeaRow).where(IdeaRow.run_id == run_id, IdeaRow.origin.is_not(None)).order_by(IdeaRow.idea)
    ):
        ideas[row.lease].append(IdeaTaken(number=row.idea, description=row.description, origin=row.origin))
    rows = connection.execute(
        select(IslandActionRow).where(IslandActionRow.run_id == run_id).order_by(IslandActionRow.lease)
    )
    return {row.lease: fact_of(IslandActed, IslandActionRow, row, ideas=tuple(ideas[row.lease])) for row in rows}


def evaluations_of(connection: Connection, run_id: int, candidates: Collection[int]) -> dict[int, Evaluated]:
    """Complete rollouts. The task's own program, candidate 0, gets island 0."""
    fresh = fresh_of(connection, run_id, candidates)
    rows = connection.execute(
        select(CandidateRow)
        .where(CandidateRow.run_id == run_id, CandidateRow.candidate.in_(candidates))
        .order_by(CandidateRow.candidate)
    )
    return {
        row.candidate: fact_of(
            Evaluated,
            CandidateRow,
            row,
            lease=row.candidate,
            island=row.island or 0,
            fresh=fresh.get(row.candidate, ()),
            program=whole_or_none(connection, run_id, row.program),
        )
        for row in rows
    }


def fresh_of(connection: Connection, run_id: int, candidates: Collection[int]) -> dict[int, tuple[FreshScore, ...]]:
    """The tries on fresh instances, in their order, without candidates that have none."""
    tries: defaultdict[int, list[FreshScore]] = defaultdict(list)
    for row in connection.execute(
        select(FreshScoreRow)
        .where(FreshScoreRow.run_id == run_id, FreshScoreRow.candidate.in_(candidates))
        .order_by(FreshScoreRow.candidate, FreshScoreRow.number)
    ):
        tries[row.candidate].append(fact_of(FreshScore, FreshScoreRow, row))
    return {candidate: tuple(listed) for candidate, listed in tries.items()}


def stages_of(connection: Connection, run_id: int, leases: Collection[int]) -> dict[int, tuple[CascadeStageEnded, ...]]:
    """The cheap stages that ended, in their order, without leases that have none."""
    stages: defaultdict[int, list[CascadeStageEnded]] = defaultdict(list)
    for row in connection.execute(
        select(CascadeScoreRow)
        .where(CascadeScoreRow.run_id == run_id, CascadeScoreRow.lease.in_(leases))
        .order_by(CascadeScoreRow.lease, CascadeScoreRow.ordinal)
    ):
        score = fact_of(CascadeScore, CascadeScoreRow, row)
        program = whole_or_none(connection, run_id, row.program)
        stages[row.lease].append(fact_of(CascadeStageEnded, CascadeScoreRow, row, score=score, program=program))
    return {lease: tuple(listed) for lease, listed in stages.items()}


def practices_of(connection: Connection, run_id: int, leases: Collection[int]) -> dict[int, Practised]:
    """What the last programs of these leases did on practice instances."""
    rows = connection.execute(select(PracticeRow).where(PracticeRow.run_id == run_id, PracticeRow.lease.in_(leases)))
    return {row.lease: fact_of(Practised, PracticeRow, row) for row in rows}


def claims_of(connection: Connection, run_id: int) -> dict[int, Claimed]:
    """The claims under test on fresh instances, by lease."""
    waits = _waits_of(connection, run_id)
    return {
        row.lease: fact_of(
            Claimed,
            ClaimRow,
            row,
            program=whole(connection, run_id, row.program),
            tries=tuple(FreshScore(**values) for values in row.tries),
            queue_seconds=waits.get(row.lease, 0.0),
        )
        for row in connection.execute(select(ClaimRow).where(ClaimRow.run_id == run_id).order_by(ClaimRow.lease))
    }


def _waits_of(connection: Connection, run_id: int) -> dict[int, float]:
    """Seconds that the program of each claim waited for slots. In each stage the last but one accepted attempt was
    another program's, so only the attempts after it count."""
    row = EvaluationAttemptRow
    claims = select(ClaimRow.lease).where(ClaimRow.run_id == run_id)
    accepted: dict[tuple[int, str], float] = {}
    waiting: defaultdict[tuple[int, str], float] = defaultdict(float)
    for attempt in connection.execute(
        select(row.lease, row.stage, row.accepted, row.queue_seconds)
        .where(row.run_id == run_id, row.fresh == 0, row.stage != PRACTICE, row.lease.in_(claims))
        .order_by(row.lease, row.stage, row.attempt)
    ):
        key = (attempt.lease, attempt.stage)
        waiting[key] += attempt.queue_seconds
        if attempt.accepted:
            accepted[key] = waiting.pop(key)
    waits: defaultdict[int, float] = defaultdict(float)
    for (lease, _), seconds in accepted.items():
        waits[lease] += seconds
    return waits


def own_scores_of(
    connection: Connection, run_id: int
) -> tuple[dict[int, float | None], dict[int, Mapping[str, float]]]:
    """The scores of the task's own program on fresh instances, by the number of the seed, and its metrics there, in a
    task with several objectives. Only those of the run's present seeds and of the evaluator in force, and only if they
    were needed."""
    statement = select(FreshScoreRow.seed, FreshScoreRow.own_score, FreshScoreRow.own_metrics).where(
        FreshScoreRow.run_id == run_id, FreshScoreRow.candidate > last_lease_before(connection, run_id)
    )
    tries = [fresh_score for claim in claims_of(connection, run_id).values() for fresh_score in claim.tries]
    rows = [row for row in (*tries, *connection.execute(statement)) if row.seed > 0]
    metrics = {row.seed: row.own_metrics for row in rows if row.own_metrics is not None}
    return {row.seed: row.own_score for row in rows}, metrics


def secret_of(connection: Connection, run_id: int) -> str:
    """The secret from which the seeds of a run's fresh instances derive."""
    return connection.execute(select(SecretRow.fresh).where(SecretRow.run_id == run_id)).scalar_one()
