"""Writes rows of one rollout: its island's action, admitted → advised → complete, or aborted.

Each function writes one fact into an open transaction and raises PaceBug if the fact cannot follow the present rows.
The condition of each UPDATE enforces the order, so that the database decides it, not this process's memory.
"""

import json
from typing import get_args

from sqlalchemy import Double, Integer, bindparam, case, cast, delete, func, select, update

from pace_async.errors import PaceBug
from pace_async.events import (
    Advised,
    AdvisorCall,
    CascadeStageEnded,
    Claimed,
    Evaluated,
    IslandActed,
    LeaseAborted,
    LeaseOpened,
    MeasuredAgain,
    Practised,
    Purpose,
)
from pace_async.population.blobs import pack_ids, pack_logprobs, pack_spans
from pace_async.population.fields import row_of
from pace_async.population.models import (
    AdvisorCallRow,
    CandidateRow,
    CascadeScoreRow,
    ClaimRow,
    EvaluationAttemptRow,
    ExperimentRow,
    FreshScoreRow,
    GivenIdeaRow,
    IdeaRow,
    IslandActionRow,
    IslandRow,
    LeaseRow,
    PracticeRow,
    ProposalRow,
)
from pace_async.population.prepared import Prepared
from pace_async.population.writing.scope import OF_LEASE, OF_RUN, STANDING, Scope
from pace_async.task import FULL

WITHDRAW = Prepared(delete(ClaimRow).where(ClaimRow.run_id == OF_RUN, ClaimRow.lease == OF_LEASE))
REPLACED_PRACTICE = Prepared(delete(PracticeRow).where(PracticeRow.run_id == OF_RUN, PracticeRow.lease == OF_LEASE))
KNOWN_ISLAND = Prepared(
    select(IslandRow.island).where(IslandRow.run_id == OF_RUN, IslandRow.island == bindparam("of_island"))
)
OLDEST = func.coalesce(bindparam("oldest", type_=Integer()), LeaseRow.admitted_version)
ADVISE = Prepared(
    update(LeaseRow).where(*STANDING, LeaseRow.stage == "admitted").values(stage="advised", oldest_version=OLDEST)
)
DECIDED = Prepared(select(LeaseRow.lease).where(*STANDING, LeaseRow.stage == "advised"))
FORGET = Prepared(
    delete(AdvisorCallRow).where(
        AdvisorCallRow.run_id == OF_RUN, AdvisorCallRow.lease == OF_LEASE, AdvisorCallRow.ordinal >= bindparam("first")
    )
)
HAS_IDEA = Prepared(
    select(IdeaRow.idea).where(
        IdeaRow.run_id == OF_RUN, IdeaRow.island == bindparam("of_island"), IdeaRow.idea == bindparam("of_idea")
    )
)
FIRST_TEXT = Prepared(
    select(IdeaRow.description)
    .where(IdeaRow.run_id == OF_RUN, IdeaRow.idea == bindparam("of_idea"))
    .order_by(IdeaRow.lease)
    .limit(1)
)
OF_A_PERSON = Prepared(
    select(GivenIdeaRow.description).where(GivenIdeaRow.run_id == OF_RUN, GivenIdeaRow.idea == bindparam("of_idea"))
)
PURPOSES = get_args(Purpose)
NEXT_STAGE = Prepared(
    select(func.coalesce(func.max(CascadeScoreRow.ordinal), 0) + 1).where(
        CascadeScoreRow.run_id == OF_RUN, CascadeScoreRow.lease == OF_LEASE
    )
)
COMPLETE = Prepared(update(LeaseRow).where(*STANDING, LeaseRow.stage == "advised").values(stage="complete"))
ABORT = Prepared(
    update(LeaseRow)
    .where(*STANDING, LeaseRow.stage != "shipped")
    .values(state="aborted", reason=bindparam("why"), closed_at=bindparam("now"))
)


def lease_opened(scope: Scope, fact: LeaseOpened) -> None:
    """The lease, and the island's row if this is its first lease."""
    if scope.value(KNOWN_ISLAND, of_island=fact.island) is None:
        scope.add(IslandRow, {"island": fact.island})
    begun: dict[str, object] = {"state": "open", "stage": "admitted", "admitted_version": fact.version}
    scope.record(LeaseRow, fact, **begun, opened_at=fact.at)


def island_acted(scope: Scope, fact: IslandActed) -> None:
    """The action and the ideas it took in. Its lease must exist."""
    scope.record(IslandActionRow, fact)
    place = {"island": fact.island, "lease": fact.lease}
    scope.add(IdeaRow, *(row_of(IdeaRow, idea, **place, idea=idea.number) for idea in fact.ideas))


def advised(scope: Scope, fact: Advised) -> None:
    """The calls, new ideas, proposals and the chosen experiment. A lease without tokens counts as sampled by its
    admission's version. The calls replace the answers that were kept one by one."""
    versions = [span.version for call in fact.calls for span in call.spans]
    _advance(scope, fact.lease, "advised", ADVISE, oldest=min(versions, default=None))
    if not fact.calls or any(call.prompt is not None for call in fact.calls):
        FORGET.run(scope.connection, {"of_run": scope.run_id, "of_lease": fact.lease, "first": 1})
    scope.add(AdvisorCallRow, *(_call(fact.lease, n, call) for n, call in enumerate(fact.calls, start=1)))
    place = {"island": fact.island, "lease": fact.lease}
    scope.add(IdeaRow, *(row_of(IdeaRow, note, **place, idea=note.number) for note in fact.ideas if not note.known))
    _known_here(scope, fact)
    proposed = enumerate(fact.ideas, start=1)
    scope.add(ProposalRow, *(row_of(ProposalRow, note, **place, ordinal=n, idea=note.number) for n, note in proposed))
    covers = json.dumps(fact.covers) if fact.covers else None
    scope.record(ExperimentRow, fact, description=fact.experiment, covers=covers)


def _known_here(scope: Scope, fact: Advised) -> None:
    """Where all islands share their ideas, the rows of those of other islands that this one uses for the first time."""
    used = {note.number for note in fact.ideas if note.known} | ({fact.idea} if fact.idea is not None else set[int]())
    for number in sorted(used - {note.number for note in fact.ideas if not note.known}):
        if scope.value(HAS_IDEA, of_island=fact.island, of_idea=number) is None:
            text = scope.value(FIRST_TEXT, of_idea=number) or scope.value(OF_A_PERSON, of_idea=number)
            if text is None:
                raise PaceBug(f"lease {fact.lease} uses idea {number}, which nobody proposed")
            scope.add(IdeaRow, {"island": fact.island, "idea": number, "lease": fact.lease, "description": text})


def advisor_answered(scope: Scope, lease: int, call: AdvisorCall) -> None:
    """An answer that was paid for, before the rollout is decided. It replaces an earlier one to the same question, and
    those to the questions after it."""
    ordinal = PURPOSES.index(call.purpose) + 1
    FORGET.run(scope.connection, {"of_run": scope.run_id, "of_lease": lease, "first": ordinal})
    scope.add(AdvisorCallRow, _call(lease, ordinal, call))


def claimed(scope: Scope, fact: Claimed) -> None:
    """Replaces the lease's earlier claim, which has fewer tries."""
    if scope.value(DECIDED, of_lease=fact.lease) is None:
        raise PaceBug(f"lease {fact.lease} cannot claim a new best: it {scope.lease_is(fact.lease)}")
    _withdraw(scope, fact.lease)
    scope.record(ClaimRow, fact, tries=[fresh_score.as_json() for fresh_score in fact.tries])


def evaluated(scope: Scope, fact: Evaluated) -> None:
    """The candidate and its tries on fresh instances. Lease 0 is the task's own program, which has no lease and no
    island."""
    own = fact.lease != 0
    if own:
        _advance(scope, fact.lease, "complete", COMPLETE)
    place = {"lease": fact.lease, "island": fact.island} if own else {"lease": None, "island": None}
    merit = scope.merit(fact.score)
    scope.record(CandidateRow, fact, candidate=fact.lease, merit=merit, **place)
    tries = enumerate(fact.fresh, start=1)
    scope.add(
        FreshScoreRow, *(row_of(FreshScoreRow, fresh_score, candidate=fact.lease, number=n) for n, fresh_score in tries)
    )
    if fact.fresh:
        _withdraw(scope, fact.lease)


def measured_again(scope: Scope, fact: MeasuredAgain) -> None:
    """The new score of a candidate, and its first one beside the attempt that gave it. A banned one keeps no rank."""
    row, attempt, score = CandidateRow, EvaluationAttemptRow, fact.score
    of_candidate = attempt.run_id == scope.run_id, attempt.lease == fact.candidate, attempt.stage == FULL
    first = *of_candidate, attempt.fresh == 0, attempt.accepted.is_(True), attempt.outcome == "ok"
    scope.connection.execute(update(attempt).where(*first, attempt.score.is_(None)).values(score=fact.scores[0]))
    merit = case((row.merit.is_not(None), cast(scope.merit(score), Double)))
    values = {"outcome": fact.outcome, "detail": fact.detail, "score": score, "merit": merit}
    scope.connection.execute(
        update(row).where(row.run_id == scope.run_id, row.candidate == fact.candidate).values(**values)
    )


def cascade_stage_ended(scope: Scope, fact: CascadeStageEnded) -> None:
    """A stage of a rollout that is advised and not complete."""
    if scope.value(DECIDED, of_lease=fact.lease) is None:
        raise PaceBug(f"lease {fact.lease} cannot have ended a stage: it {scope.lease_is(fact.lease)}")
    ordinal = scope.value(NEXT_STAGE, of_lease=fact.lease)
    scope.record(CascadeScoreRow, fact, ordinal=ordinal, **row_of(CascadeScoreRow, fact.score))


def practised(scope: Scope, fact: Practised) -> None:
    """Replaces what the lease's earlier program did, which the implementer was asked to mend."""
    REPLACED_PRACTICE.run(scope.connection, {"of_run": scope.run_id, "of_lease": fact.lease})
    scope.record(PracticeRow, fact)


def lease_aborted(scope: Scope, fact: LeaseAborted) -> None:
    """Closes a lease without training. A shipped lease closes only with its group."""
    scope.one(
        ABORT,
        lambda: f"lease {fact.lease} cannot be aborted: it {scope.lease_is(fact.lease)}",
        of_lease=fact.lease,
        why=f"{fact.kind}: {fact.detail}" if fact.detail else fact.kind,
        now=fact.at,
    )
    _withdraw(scope, fact.lease)


def _withdraw(scope: Scope, lease: int) -> None:
    WITHDRAW.run(scope.connection, {"of_run": scope.run_id, "of_lease": lease})


def _advance(scope: Scope, lease: int, after: str, statement: Prepared, **more: int | None) -> None:
    scope.one(
        statement, lambda: f"lease {lease} cannot become {after}: it {scope.lease_is(lease)}", of_lease=lease, **more
    )


def _call(lease: int, ordinal: int, call: AdvisorCall) -> dict[str, object]:
    return row_of(
        AdvisorCallRow,
        call,
        lease=lease,
        ordinal=ordinal,
        prompt_tokens=len(call.prompt_ids),
        completion_tokens=len(call.completion_ids),
        oldest_version=min((span.version for span in call.spans), default=None),
        prompt_ids=pack_ids(call.prompt_ids),
        completion_ids=pack_ids(call.completion_ids),
        logprobs=pack_logprobs(call.logprobs),
        spans=pack_spans(call.spans),
        words=json.dumps(dict(call.words), ensure_ascii=False, sort_keys=True) if call.words else None,
    )
