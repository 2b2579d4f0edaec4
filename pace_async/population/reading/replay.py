"""The state of a run, rebuilt from its facts by the fold that made it (`state.apply`).

The facts are events (opened, acted, proposed, tried, scored, trained), never derived state. So the state is unique, and
a resumed run has exactly the state of the interrupted one. They come in the order of their commits. A running run
chooses what a lease takes in from another island a moment before that lease is committed, so this is passed to the fold
separately.

Of closed leases only the fold's input is read: no tokens, no answers, and no attempts.
"""

from collections.abc import Collection, Iterator, Sequence, Set
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, func, select

from pace_async.config import AdvisorConfig, SearchConfig
from pace_async.errors import PaceBug, UsageError
from pace_async.events import EpochInForce, RunHeader
from pace_async.fitness import Fitness
from pace_async.gc_freeze import rare_collections
from pace_async.population.journal.bodies import Recorded, fact_of
from pace_async.population.journal.states import Reading, state_of_bytes
from pace_async.population.models import (
    CandidateRow,
    ExperimentRow,
    IslandActionRow,
    JournalRow,
    LeaseRow,
    SteeringRow,
)
from pace_async.population.reading.candidates import same_rollout
from pace_async.population.reading.epochs import rescoring_of
from pace_async.population.reading.importing.facts import inferred_facts
from pace_async.population.reading.journal import BATCH, Contents, DamagedJournal, has_journal
from pace_async.population.reading.programs import whole, whole_or_none
from pace_async.population.reading.read_facts import practices_of
from pace_async.population.reading.snapshots import Snapshot, newest_snapshot
from pace_async.registry.advisors import advisor_of
from pace_async.search.state import Member, Rules, rules_of
from pace_async.state.apply import apply, practice_with
from pace_async.state.rescored import rescored
from pace_async.state.run_state import RunState, Terms

T = TypeVar("T")

INPUT = {
    "LeaseOpened",
    "IslandActed",
    "Advised",
    "ImplementerChosen",
    "ImplementerReserved",
    "ImplementerCalled",
    "ImplementerChecked",
    "Practised",
    "Evaluated",
    "MeasuredAgain",
    "LeaseAborted",
    "LeaseReleased",
    "GroupShipped",
    "GroupEnded",
    "VersionPublished",
    "EpochInForce",
    "IdeaGiven",
    "ProgramGiven",
    "Steered",
    "LearnedBefore",
}
"""The kinds of facts that the fold needs of every lease. Of open leases it needs all."""
UNREAD: dict[str, dict[str, Any]] = {
    "Advised": {"calls": ()},
    "ImplementerCalled": {"tried": None, "answered": None},
    "ProgramGiven": {"program": ""},
}
"""What the fold does not need of closed leases, by kind."""


def rules_of_run(header: RunHeader) -> Rules:
    """The rules of the islands from the run's row."""
    settings = cast("dict[str, Any]", header.config.get("search") or {})
    older = {"memory_mb": None, "memory": "pool"}  # a run that is older than a setting
    search = SearchConfig.model_validate({**older, **settings})
    return rules_of(search, header.fitness)


def state_of(connection: Connection, run_id: int, header: RunHeader) -> RunState:
    """What the facts of a run come to: those after its newest snapshot on top of that, or all. The configuration in the
    run's row says how much is kept. Raises PaceBug for rows that no run can have written, UsageError for a journal that
    does not read."""
    is_open = select(LeaseRow.lease).where(LeaseRow.run_id == run_id, LeaseRow.state == "open")
    whole = {0, *connection.execute(is_open).scalars()}
    snapshot = newest_snapshot(connection, run_id)
    with rare_collections():
        try:
            state, after = _starting_point(connection, run_id, header, snapshot, whole)
            return _folded(connection, run_id, state, whole, after)
        except DamagedJournal as error:
            raise UsageError(
                f"The journal of run {header.name} does not read ({error}): restore its population from a backup."
            ) from None


def states_at(connection: Connection, run_id: int, header: RunHeader, snapshot: Snapshot) -> tuple[RunState, RunState]:
    """The state in a snapshot, and the state that the facts up to it come to. Raises ValueError for a snapshot or a
    journal that does not read."""
    state = state_of_bytes(snapshot.state, _terms(header), _reading(connection, run_id, frozenset()))
    whole = {0, *state.running, *state.complete, *(rollout.lease.lease for rollout in state.training)}
    state = state_of_bytes(snapshot.state, _terms(header), _reading(connection, run_id, whole))
    _lend(connection, run_id, state, whole)
    return state, _folded(connection, run_id, RunState(_terms(header)), whole, 0, snapshot.seq)


def _terms(header: RunHeader) -> Terms:
    advisor = cast("dict[str, Any]", header.config.get("advisor") or {})
    edits = not advisor_of(advisor.get("model", AdvisorConfig().model)).has_model
    return Terms(header.group_size, header.max_staleness, rules_of_run(header), edits=edits)


def _starting_point(
    connection: Connection, run_id: int, header: RunHeader, snapshot: Snapshot | None, whole: Set[int]
) -> tuple[RunState, int]:
    """The state that the fold goes on from, and the number of the last fact in it."""
    if snapshot is not None:
        try:
            state = state_of_bytes(snapshot.state, _terms(header), _reading(connection, run_id, whole))
            return state, snapshot.seq
        except ValueError:
            pass  # all facts are there
    return RunState(_terms(header)), 0


def _reading(connection: Connection, run_id: int, whole: Set[int]) -> Reading:
    return Reading(Contents(connection, run_id).of, lambda candidates: _programs(connection, run_id, candidates), whole)


def _folded(
    connection: Connection, run_id: int, state: RunState, whole: Set[int], after: int, until: int | None = None
) -> RunState:
    """The state after the facts whose numbers are greater than `after`, up to `until`."""
    _lend(connection, run_id, state, whole)
    for fact in _facts(connection, run_id, whole, after, until):
        if isinstance(fact, EpochInForce):
            rescored(state, rescoring_of(connection, run_id, fact.epoch, state.terms.rules.fitness))
        elif not isinstance(fact, RunHeader):
            apply(state, fact)
    return state


def _lend(connection: Connection, run_id: int, state: RunState, whole: Set[int]) -> None:
    """What leases took in from other islands: the pools after these leases, and the programs that the leases `whole`
    start from, each the parent that its advisor named or a migrant. A lease may take in after a snapshot what it could
    see at that moment. And the programs of which people have said something."""
    sources = select(IslandActionRow.as_of).where(IslandActionRow.run_id == run_id, IslandActionRow.as_of.is_not(None))
    state.lent.update((lease, ()) for lease in connection.execute(sources).scalars() if lease is not None)
    known = {pool.lease: pool.ideas for pool in state.visible.pools.values()}
    known |= {rollout.lease.lease: rollout.ideas for rollout in (*state.complete.values(), *state.training)}
    state.lent.update((lease, ideas) for lease, ideas in known.items() if lease in state.lent)
    for batch in _batches(sorted(whole - {0})):
        opened = (
            select(LeaseRow.migrant, ExperimentRow.parent)
            .outerjoin(ExperimentRow, same_rollout(ExperimentRow, LeaseRow))
            .where(LeaseRow.run_id == run_id, LeaseRow.lease.in_(batch))
        )
        lent = {each for programs in connection.execute(opened).all() for each in programs if each is not None}
        members = members_of(connection, run_id, lent, state.terms.rules.fitness)
        if missing := lent - members.keys():
            raise PaceBug(f"candidates {sorted(missing)} have no row")
        state.lent_programs.update((candidate, member) for candidate, (_, member) in members.items())
    words = select(SteeringRow.number).where(SteeringRow.run_id == run_id, SteeringRow.subject == "candidate")
    said_of = connection.execute(words.distinct()).scalars().all()
    state.claimed.named.update(scored_of(connection, run_id, said_of, state.terms.rules.fitness))
    for underway in state.running.values():
        if underway.advice is not None:
            underway.base = state.lent_programs.get(underway.advice.parent)


def _facts(connection: Connection, run_id: int, whole: Set[int], after: int, until: int | None) -> Iterator[Recorded]:
    """What the fold needs, in the order of the commits."""
    if has_journal(connection, run_id):
        yield from _stored(connection, run_id, whole, after, until)
    else:
        for _, fact in inferred_facts(connection, run_id, whole=whole):
            yield fact


def _stored(connection: Connection, run_id: int, whole: Set[int], after: int, until: int | None) -> Iterator[Recorded]:
    """From the journal. Of the leases `whole` the facts are complete."""
    row = JournalRow
    of_run = row.run_id == run_id
    rows, newest = connection.execute(select(func.count(), func.max(row.seq)).where(of_run, row.seq > after)).one()
    if rows != (newest or after) - after:
        raise DamagedJournal(f"{newest - after - rows} facts are missing")
    contents = Contents(connection, run_id)
    needed = row.kind.in_(INPUT) | row.lease.in_(whole)
    statement = select(row.seq, row.kind, row.lease, row.body).where(of_run, needed).order_by(row.seq)
    if until is not None:
        statement = statement.where(row.seq <= until)
    while batch := connection.execute(statement.where(row.seq > after).limit(BATCH)).all():
        programs = _programs(connection, run_id, [each.lease for each in batch if each.kind == "Evaluated"])
        for after, kind, lease, body in batch:
            try:
                if lease is None or lease in whole:
                    yield fact_of(kind, body, contents.of(lease))
                else:
                    instead = {"program": programs[lease]} if kind == "Evaluated" else UNREAD.get(kind, {})
                    yield fact_of(kind, body, contents.of(None), instead)
            except ValueError as error:
                raise DamagedJournal(f"fact {after}: {error}") from None


def _programs(connection: Connection, run_id: int, candidates: Sequence[int | None]) -> dict[int, str | None]:
    row, programs = CandidateRow, dict[int, str | None]()
    for batch in _batches(candidates):
        statement = select(row.candidate, row.program).where(row.run_id == run_id, row.candidate.in_(batch))
        rows = connection.execute(statement).all()
        programs.update((candidate, whole_or_none(connection, run_id, program)) for candidate, program in rows)
    return programs


def _batches(numbers: Sequence[T]) -> Iterator[Sequence[T]]:
    return (numbers[start : start + BATCH] for start in range(0, len(numbers), BATCH))


def members_of(
    connection: Connection, run_id: int, candidates: Collection[int], fitness: Fitness
) -> dict[int, tuple[int, Member]]:
    """The programs with these numbers, those among them that exist, each with its island, 0 for the task's own."""
    row, members = CandidateRow, dict[int, tuple[int, Member]]()
    practices = practices_of(connection, run_id, candidates)
    statement = select(row.candidate, row.island, row.program, row.score, row.feedback, row.metrics)
    for each in connection.execute(statement.where(row.run_id == run_id, row.candidate.in_(candidates))).all():
        program, practice = whole(connection, run_id, each.program), practices.get(each.candidate)
        practice, costs = practice_with(program, practice), fitness.costs(each.metrics)
        member = Member(each.candidate, program, each.score, each.feedback, practice, costs)
        members[each.candidate] = each.island or 0, member
    return members


def scored_of(
    connection: Connection, run_id: int, candidates: Collection[int], fitness: Fitness
) -> dict[int, tuple[int, Member]]:
    """The same of those that have a score."""
    row = CandidateRow
    scored = select(row.candidate).where(row.run_id == run_id, row.candidate.in_(candidates), row.score.is_not(None))
    return members_of(connection, run_id, connection.execute(scored).scalars().all(), fitness)
