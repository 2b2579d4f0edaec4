"""The islands of a run, folded anew from its rows by the functions of `search` that made them.

The rows hold what happened (proposed, tried, scored), never what a pool looked like; so there is one way an island can
be, and a resumed run sees exactly what the interrupted one saw. One thread is one island and makes one rollout at a
time, so the order of its leases is the order of what happened to it.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, and_, select

from pace_async.config import Search
from pace_async.errors import PaceBug
from pace_async.events import IdeaNote, RunHeader
from pace_async.population.models import CandidateRow, ExperimentRow, LeaseRow
from pace_async.population.read_facts import notes_of
from pace_async.search.ideas import admit
from pace_async.search.islands import after_advice, after_evaluation, first_island
from pace_async.search.state import Island, Member, Trial


def islands_of(
    connection: Connection, run_id: int, header: RunHeader, seed_program: Member | None
) -> dict[int, Island]:
    """Every island that has opened a lease, by number; none while the task's own program has no score. How much a pool
    keeps comes from the configuration in the run's row."""
    if seed_program is None:
        return {}
    search = Search.model_validate(header.config.get("search") or {})
    notes = notes_of(connection, run_id, None)
    islands: dict[int, Island] = {}
    for row in connection.execute(_rollouts(run_id)):
        island = islands.get(row.island) or first_island(row.island, seed_program)
        if row.lease in notes:
            island = _with_ideas(island, notes[row.lease], search.ideas_kept)
        if row.outcome is not None:
            island = _with_candidate(island, row, header.direction, search.members_kept)
        islands[row.island] = island
    return islands


def _rollouts(run_id: int) -> Any:
    advised = and_(ExperimentRow.run_id == LeaseRow.run_id, ExperimentRow.lease == LeaseRow.lease)
    complete = and_(CandidateRow.run_id == LeaseRow.run_id, CandidateRow.lease == LeaseRow.lease)
    columns = (
        LeaseRow.lease,
        LeaseRow.island,
        ExperimentRow.idea,
        ExperimentRow.description,
        CandidateRow.outcome,
        CandidateRow.score,
        CandidateRow.program,
    )
    return (
        select(*columns)
        .select_from(LeaseRow)
        .outerjoin(ExperimentRow, advised)
        .outerjoin(CandidateRow, complete)
        .where(LeaseRow.run_id == run_id)
        .order_by(LeaseRow.lease)
    )


def _with_ideas(island: Island, notes: Sequence[IdeaNote], cap: int) -> Island:
    proposals = [note.description for note in notes]
    verdicts = [note.number if note.known else None for note in notes]
    try:
        pool, numbered, next_idea = admit(island.ideas, proposals, verdicts, island.next_idea, cap)
    except ValueError as error:
        raise PaceBug(f"island {island.number} cannot be rebuilt: {error}") from error
    if [note.number for note in numbered] != [note.number for note in notes]:
        raise PaceBug(f"island {island.number} cannot be rebuilt: its ideas are not numbered in order")
    return after_advice(island, pool, next_idea)


def _with_candidate(island: Island, row: Row[Any], direction: str, kept: int) -> Island:
    trial = member = None
    if row.description is not None:
        trial = Trial(candidate=row.lease, description=row.description, outcome=row.outcome, score=row.score)
    if row.score is not None:
        member = Member(candidate=row.lease, program=row.program, score=row.score)
    return after_evaluation(island, idea=row.idea, trial=trial, member=member, direction=direction, kept=kept)
