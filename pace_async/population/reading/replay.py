"""The state of a run, rebuilt from its facts by the fold that made it (`state.apply`).

The facts are events (opened, acted, proposed, tried, scored, trained), never derived state. So the state is unique, and
a resumed run has exactly the state of the interrupted one. They come in the order of their commits. A running run
chooses what a lease takes in from another island a moment before that lease is committed, so this is passed to the fold
separately.

Of closed leases only the fold's input is read: no tokens, no answers, and no attempts.
"""

from collections.abc import Iterator, Set
from typing import Any, cast

from sqlalchemy import Connection, func, select

from pace_async.config import AdvisorConfig, SearchConfig
from pace_async.errors import UsageError
from pace_async.events import EpochInForce, RunHeader
from pace_async.gc_freeze import rare_collections
from pace_async.population.journal.bodies import Recorded, fact_of
from pace_async.population.models import CandidateRow, ExperimentRow, IslandActionRow, JournalRow, LeaseRow
from pace_async.population.reading.candidates import same_rollout
from pace_async.population.reading.epochs import rescoring_of
from pace_async.population.reading.importing.facts import inferred_facts
from pace_async.population.reading.journal import BATCH, Contents, DamagedJournal, has_journal
from pace_async.population.reading.read_facts import practices_of
from pace_async.registry.advisors import advisor_of
from pace_async.search.islands import goal_of
from pace_async.search.state import Member, Rules, rules_of
from pace_async.state.apply import apply, practice_with
from pace_async.state.rescored import rescored
from pace_async.state.run_state import RunState, Terms

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
    "LeaseAborted",
    "LeaseReleased",
    "GroupShipped",
    "GroupEnded",
    "VersionPublished",
    "EpochInForce",
}
"""The kinds of facts that the fold needs of every lease. Of open leases it needs all."""
UNREAD: dict[str, dict[str, Any]] = {"Advised": {"calls": ()}, "ImplementerCalled": {"tried": None, "answered": None}}
"""What the fold does not need of closed leases, by kind."""


def rules_of_run(header: RunHeader) -> Rules:
    """The rules of the islands from the run's row."""
    settings = cast("dict[str, Any]", header.config.get("search") or {})
    older = {"memory_mb": None, "memory": "pool"}  # a run that is older than a setting
    search = SearchConfig.model_validate({**older, **settings})
    return rules_of(search, header.direction, goal_of(header.direction, header.lower, header.upper))


def state_of(connection: Connection, run_id: int, header: RunHeader) -> RunState:
    """The fold over all facts of a run. The configuration in the run's row says how much is kept. Raises PaceBug for
    rows that no run can have written, UsageError for a journal that does not read."""
    advisor = cast("dict[str, Any]", header.config.get("advisor") or {})
    edits = not advisor_of(advisor.get("model", AdvisorConfig().model)).has_model
    terms = Terms(header.group_size, header.max_staleness, rules_of_run(header), edits=edits)
    state = RunState(terms)
    _lend(connection, run_id, state)
    with rare_collections():
        try:
            for fact in _facts(connection, run_id):
                if isinstance(fact, EpochInForce):
                    rescored(state, rescoring_of(connection, run_id, fact.epoch))
                elif not isinstance(fact, RunHeader):
                    apply(state, fact)
        except DamagedJournal as error:
            raise UsageError(
                f"The journal of run {header.name} does not read ({error}): restore its population from a backup."
            ) from None
    return state


def _lend(connection: Connection, run_id: int, state: RunState) -> None:
    """What leases took in from other islands: the pools after these leases, and the programs that open leases start
    from, each the parent that its advisor named or a migrant."""
    seen = select(IslandActionRow.as_of).where(IslandActionRow.run_id == run_id, IslandActionRow.as_of.is_not(None))
    state.lent.update((lease, ()) for lease in connection.execute(seen).scalars() if lease is not None)
    opened = (
        select(LeaseRow.migrant, ExperimentRow.parent)
        .outerjoin(ExperimentRow, same_rollout(ExperimentRow, LeaseRow))
        .where(LeaseRow.run_id == run_id, LeaseRow.state == "open", LeaseRow.stage.in_(("admitted", "advised")))
    )
    for programs in connection.execute(opened).all():
        state.lent_programs.update({each: _program(connection, run_id, each) for each in programs if each is not None})


def _facts(connection: Connection, run_id: int) -> Iterator[Recorded]:
    """What the fold needs, in the order of the commits."""
    is_open = select(LeaseRow.lease).where(LeaseRow.run_id == run_id, LeaseRow.state == "open")
    whole = {0, *connection.execute(is_open).scalars()}
    if has_journal(connection, run_id):
        yield from _stored(connection, run_id, whole)
    else:
        for _, fact in inferred_facts(connection, run_id, whole=whole):
            yield fact


def _stored(connection: Connection, run_id: int, whole: Set[int]) -> Iterator[Recorded]:
    """From the journal. Of the leases `whole` the facts are complete."""
    row = JournalRow
    rows, newest = connection.execute(select(func.count(), func.max(row.seq)).where(row.run_id == run_id)).one()
    if rows != newest:
        raise DamagedJournal(f"{newest - rows} facts are missing")
    contents, after = Contents(connection, run_id), 0
    needed = row.kind.in_(INPUT) | row.lease.in_(whole)
    statement = select(row.seq, row.kind, row.lease, row.body).where(row.run_id == run_id, needed).order_by(row.seq)
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


def _programs(connection: Connection, run_id: int, candidates: list[int | None]) -> dict[int, str | None]:
    row = CandidateRow
    asked = select(row.candidate, row.program).where(row.run_id == run_id, row.candidate.in_(candidates))
    return {found.candidate: found.program for found in connection.execute(asked)}


def _program(connection: Connection, run_id: int, candidate: int) -> Member:
    row = connection.execute(
        select(CandidateRow.candidate, CandidateRow.program, CandidateRow.score, CandidateRow.feedback).where(
            CandidateRow.run_id == run_id, CandidateRow.candidate == candidate
        )
    ).one()
    practice = practices_of(connection, run_id, [candidate]).get(candidate)
    return Member(row.candidate, row.program, row.score, row.feedback, practice_with(row.program, practice))
