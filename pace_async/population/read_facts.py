"""Rows back into the facts that wrote them. Each function takes some ids and gives the facts found, by id.

Reading back what `writes` wrote gives an equal fact, except where the database cannot hold the value: see `columns`
(texts, non-finite metrics) and `blobs` (log-probabilities are float32).
"""

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import Connection, select

from pace_async.events import (
    Advised,
    AdvisorCall,
    CascadeScore,
    CascadeStageEnded,
    Claimed,
    Evaluated,
    FreshScore,
    GroupShipped,
    IdeaNote,
    IdeaTaken,
    IslandActed,
)
from pace_async.population.blobs import unpack_ids, unpack_logprobs, unpack_spans
from pace_async.population.models import (
    AdvisorCallRow,
    CandidateRow,
    CascadeScoreRow,
    ClaimRow,
    ExperimentRow,
    FreshScoreRow,
    GroupRow,
    IdeaRow,
    IslandActionRow,
    LeaseRow,
    Proposal,
    SecretRow,
)
from pace_async.population.write_actions import ACTION_FIELDS
from pace_async.population.write_rollouts import CASCADE_FIELDS, CLAIM_FIELDS, FRESH_FIELDS


def advice_of(connection: Connection, run_id: int, leases: Collection[int]) -> dict[int, Advised]:
    """What the advisor decided, with its tokens."""
    calls: defaultdict[int, list[AdvisorCall]] = defaultdict(list)
    for row in connection.execute(
        select(AdvisorCallRow)
        .where(AdvisorCallRow.run_id == run_id, AdvisorCallRow.lease.in_(leases))
        .order_by(AdvisorCallRow.lease, AdvisorCallRow.ordinal)
    ):
        calls[row.lease].append(
            AdvisorCall(
                purpose=row.purpose,
                prompt_ids=unpack_ids(row.prompt_ids, row.prompt_tokens),
                completion_ids=unpack_ids(row.completion_ids, row.completion_tokens),
                logprobs=unpack_logprobs(row.logprobs),
                spans=unpack_spans(row.spans),
                text=row.text,
                seconds=row.seconds,
            )
        )
    notes = notes_of(connection, run_id, leases)
    rows = connection.execute(
        select(ExperimentRow)
        .where(ExperimentRow.run_id == run_id, ExperimentRow.lease.in_(leases))
        .order_by(ExperimentRow.lease)
    )
    return {
        row.lease: Advised(
            lease=row.lease,
            island=row.island,
            parent=row.parent,
            calls=tuple(calls[row.lease]),
            ideas=notes.get(row.lease, ()),
            idea=row.idea,
            experiment=row.description,
            at=row.at,
        )
        for row in rows
    }


def notes_of(connection: Connection, run_id: int, leases: Collection[int] | None) -> dict[int, tuple[IdeaNote, ...]]:
    """The ideas that each rollout proposed, in order; of every rollout where `leases` is None."""
    statement = select(Proposal).where(Proposal.run_id == run_id).order_by(Proposal.lease, Proposal.ordinal)
    if leases is not None:
        statement = statement.where(Proposal.lease.in_(leases))
    notes: defaultdict[int, list[IdeaNote]] = defaultdict(list)
    for row in connection.execute(statement):
        notes[row.lease].append(IdeaNote(number=row.idea, description=row.description, known=row.known))
    return {lease: tuple(listed) for lease, listed in notes.items()}


def actions_of(connection: Connection, run_id: int) -> dict[int, IslandActed]:
    """Every action of an island, by the lease that opened with it."""
    taken: defaultdict[int, list[IdeaTaken]] = defaultdict(list)
    for row in connection.execute(
        select(IdeaRow).where(IdeaRow.run_id == run_id, IdeaRow.origin.is_not(None)).order_by(IdeaRow.idea)
    ):
        taken[row.lease].append(IdeaTaken(number=row.idea, description=row.description, origin=row.origin))
    rows = connection.execute(
        select(IslandActionRow).where(IslandActionRow.run_id == run_id).order_by(IslandActionRow.lease)
    )
    return {
        row.lease: IslandActed(ideas=tuple(taken[row.lease]), **{name: getattr(row, name) for name in ACTION_FIELDS})
        for row in rows
    }


def evaluations_of(connection: Connection, run_id: int, candidates: Collection[int]) -> dict[int, Evaluated]:
    """Complete rollouts. The task's own program, candidate 0, comes back as of island 0."""
    fresh = fresh_of(connection, run_id, candidates)
    rows = connection.execute(
        select(CandidateRow)
        .where(CandidateRow.run_id == run_id, CandidateRow.candidate.in_(candidates))
        .order_by(CandidateRow.candidate)
    )
    return {
        row.candidate: Evaluated(
            lease=row.candidate,
            island=row.island or 0,
            parent=row.parent,
            program=row.program,
            program_hash=row.program_hash,
            outcome=row.outcome,
            detail=row.detail,
            score=row.score,
            reward=row.reward,
            metrics=row.metrics,
            seconds=row.seconds,
            memoised=row.memoised,
            mechanism=row.mechanism,
            at=row.at,
            fresh=fresh.get(row.candidate, ()),
        )
        for row in rows
    }


def fresh_of(connection: Connection, run_id: int, candidates: Collection[int]) -> dict[int, tuple[FreshScore, ...]]:
    """The tries on fresh instances, in their order; candidates without one left out."""
    tries: defaultdict[int, list[FreshScore]] = defaultdict(list)
    for row in connection.execute(
        select(FreshScoreRow)
        .where(FreshScoreRow.run_id == run_id, FreshScoreRow.candidate.in_(candidates))
        .order_by(FreshScoreRow.candidate, FreshScoreRow.number)
    ):
        tries[row.candidate].append(FreshScore(**{name: getattr(row, name) for name in FRESH_FIELDS}))
    return {candidate: tuple(listed) for candidate, listed in tries.items()}


def stages_of(connection: Connection, run_id: int, leases: Collection[int]) -> dict[int, tuple[CascadeStageEnded, ...]]:
    """The cheap stages that ended, in their order; leases without one left out."""
    found: defaultdict[int, list[CascadeStageEnded]] = defaultdict(list)
    for row in connection.execute(
        select(CascadeScoreRow)
        .where(CascadeScoreRow.run_id == run_id, CascadeScoreRow.lease.in_(leases))
        .order_by(CascadeScoreRow.lease, CascadeScoreRow.ordinal)
    ):
        score = CascadeScore(**{name: getattr(row, name) for name in CASCADE_FIELDS})
        ended = CascadeStageEnded(row.lease, row.number, score, row.program, row.mechanism, row.at)
        found[row.lease].append(ended)
    return {lease: tuple(listed) for lease, listed in found.items()}


def claims_of(connection: Connection, run_id: int) -> dict[int, Claimed]:
    """What is being tried on fresh instances, by lease."""
    return {
        row.lease: Claimed(
            **{name: getattr(row, name) for name in CLAIM_FIELDS},
            tries=tuple(FreshScore(**tried) for tried in row.tries),
        )
        for row in connection.execute(select(ClaimRow).where(ClaimRow.run_id == run_id).order_by(ClaimRow.lease))
    }


def own_scores_of(connection: Connection, run_id: int) -> dict[int, float | None]:
    """The scores of the task's own program on fresh instances, by the number of the seed, as far as they were needed
    with the seeds that the run has now."""
    statement = select(FreshScoreRow.seed, FreshScoreRow.own_score).where(FreshScoreRow.run_id == run_id)
    tries = [tried for claim in claims_of(connection, run_id).values() for tried in claim.tries]
    rows = [*tries, *connection.execute(statement.distinct())]
    return {row.seed: row.own_score for row in rows if row.seed > 0}


def secret_of(connection: Connection, run_id: int) -> str:
    """What the seeds of a run's fresh instances follow from."""
    return connection.execute(select(SecretRow.fresh).where(SecretRow.run_id == run_id)).scalar_one()


def groups_of(connection: Connection, run_id: int, state: str | None = None) -> dict[int, GroupShipped]:
    """Groups as they were shipped, all or those in one state."""
    statement = select(GroupRow).where(GroupRow.run_id == run_id).order_by(GroupRow.group_number)
    if state is not None:
        statement = statement.where(GroupRow.state == state)
    groups: dict[int, GroupShipped] = {}
    for group in connection.execute(statement).all():
        leases = connection.execute(
            select(LeaseRow)
            .where(LeaseRow.run_id == run_id, LeaseRow.group_number == group.group_number)
            .order_by(LeaseRow.lease)
        ).all()
        weighed = all(lease.advantage is not None for lease in leases)
        groups[group.group_number] = GroupShipped(
            number=group.group_number,
            update=group.update_number,
            leases=tuple(lease.lease for lease in leases),
            staleness=tuple(lease.staleness for lease in leases),
            rewards=tuple(lease.group_reward for lease in leases),
            advantages=tuple(lease.advantage for lease in leases) if weighed else None,
            alpha=group.alpha,
            digest=group.digest,
            at=group.shipped_at,
            restores=group.restores,
            rate=group.rate,
        )
    return groups
