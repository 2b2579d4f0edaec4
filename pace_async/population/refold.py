"""The islands of a run, folded anew from its rows by the functions of `search` that made them.

The rows hold what happened (acted, proposed, tried, scored), never what a pool looked like; so there is one way an
island can be, and a resumed run sees exactly what the interrupted one saw. One thread is one island and makes one
rollout at a time, so the order of its leases is the order of what happened to it; and what an island takes in from
another is older than the lease with which it does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, and_, select

from pace_async.config import Search
from pace_async.errors import PaceBug
from pace_async.events import IdeaNote, IslandActed, RunHeader
from pace_async.population.models import CandidateRow, ExperimentRow, LeaseRow
from pace_async.population.read_facts import actions_of, notes_of
from pace_async.search.acting import after_action
from pace_async.search.choice import rules_of
from pace_async.search.ideas import Pool, admit
from pace_async.search.islands import after_advice, after_evaluation, first_island
from pace_async.search.momentum import goal_of
from pace_async.search.state import Island, Member, Rules, Shown, Trial

BATCH = 500
"""Rollouts read at a time: each brings its program."""


@dataclass(frozen=True, slots=True)
class Folded:
    """Islands that have opened a lease, by number. `shown` is what the others may see of their ideas: the pool as of
    the newest lease that is trained or skipped; `pools` has the pool at the end of each complete lease that is open."""

    islands: dict[int, Island] = field(default_factory=dict[int, Island])
    shown: dict[int, Shown] = field(default_factory=dict[int, Shown])
    pools: dict[int, Pool] = field(default_factory=dict[int, Pool])


def fold(connection: Connection, run_id: int, header: RunHeader, seed_program: Member | None) -> Folded:
    """Nothing while the task's own program has no score. How much is kept, and what fades, comes from the configuration
    in the run's row. Raises PaceBug for rows that no run can have written."""
    found = Folded()
    if seed_program is None:
        return found
    rules = rules_of_run(header)
    notes = notes_of(connection, run_id, None)
    actions = actions_of(connection, run_id)
    lent: dict[int, Pool] = {acted.as_of: () for acted in actions.values() if acted.as_of is not None}
    for row in connection.execute(_rollouts(run_id)):
        island = found.islands.get(row.island) or first_island(row.island, seed_program)
        if row.lease in actions:
            island = _acted(island, actions[row.lease], lent, rules)
        if row.lease in notes:
            island = _with_ideas(island, notes[row.lease], rules.ideas_kept)
        if row.outcome is not None:
            island = _with_candidate(island, row, rules)
            if row.state in ("trained", "skipped"):
                found.shown[row.island] = Shown(row.lease, island.ideas)
            elif row.state == "open":
                found.pools[row.lease] = island.ideas
            if row.lease in lent:
                lent[row.lease] = island.ideas
        found.islands[row.island] = island
    return found


def rules_of_run(header: RunHeader) -> Rules:
    """What the run's row fixes about its islands."""
    search = Search.model_validate(header.config.get("search") or {})
    return rules_of(search, header.direction, goal_of(header.direction, header.lower, header.upper))


def _rollouts(run_id: int) -> Any:
    advised = and_(ExperimentRow.run_id == LeaseRow.run_id, ExperimentRow.lease == LeaseRow.lease)
    complete = and_(CandidateRow.run_id == LeaseRow.run_id, CandidateRow.lease == LeaseRow.lease)
    columns = (
        LeaseRow.lease,
        LeaseRow.island,
        LeaseRow.state,
        ExperimentRow.parent,
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
        .execution_options(yield_per=BATCH)
    )


def _acted(island: Island, acted: IslandActed, lent: Mapping[int, Pool], rules: Rules) -> Island:
    arriving = lent[acted.as_of] if acted.as_of is not None else ()
    try:
        return after_action(island, acted, arriving, rules)
    except ValueError as error:
        raise PaceBug(f"island {island.number} cannot be rebuilt: {error}") from error


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


def _with_candidate(island: Island, row: Row[Any], rules: Rules) -> Island:
    trial = member = None
    if row.description is not None:
        trial = Trial(candidate=row.lease, description=row.description, outcome=row.outcome, score=row.score)
    if row.score is not None:
        member = Member(candidate=row.lease, program=row.program, score=row.score)
    return after_evaluation(island, parent=row.parent, idea=row.idea, trial=trial, member=member, rules=rules)
