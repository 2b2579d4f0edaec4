"""Reading a RunRecord. Everything is read in one transaction, so it is one moment of the run."""

from collections.abc import Mapping
from difflib import get_close_matches
from itertools import groupby
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, func, select

from pace_async.errors import UsageError
from pace_async.events import RunHeader
from pace_async.objectives import Spreads
from pace_async.population.implementers_chosen import choices_of, paid_of, results_of
from pace_async.population.models import (
    CandidateRow,
    GroupRow,
    LeaseRow,
    Run,
    RunState,
    VersionRow,
)
from pace_async.population.read_facts import (
    advice_of,
    claims_of,
    evaluations_of,
    groups_of,
    own_scores_of,
    secret_of,
    stages_of,
)
from pace_async.population.read_spending import (
    changes_of,
    reservations_of,
    reserved_of,
    spend_of,
    tries_of,
)
from pace_async.population.record import LastLease, OpenLease, RunRecord, Standing
from pace_async.population.refold import fold
from pace_async.population.write_run import HEADER_FIELDS
from pace_async.search.bandit import Result
from pace_async.search.ideas import Pool
from pace_async.search.state import Member
from pace_async.staleness.rollback import Count, Health


class NoRun(UsageError):
    """A population in which no run has begun, or not the one that was asked for."""


def find_run(connection: Connection, name: str | None) -> int:
    """run_id of the run called `name`, or of the only run. Raises UsageError naming the runs there are."""
    runs = {row.name: row.run_id for row in connection.execute(select(Run.name, Run.run_id).order_by(Run.run_id))}
    if name in runs:
        return runs[name]
    if not runs:
        raise NoRun("This population holds no run.")
    if name is None:
        if len(runs) == 1:
            return next(iter(runs.values()))
        raise UsageError(f"This population holds several runs ({', '.join(runs)}): say which.")
    near = get_close_matches(name, runs, n=1) or list(runs)[:1]
    raise NoRun(f"This population holds no run {name!r}; did you mean {near[0]!r}?")


def header_of(connection: Connection, run_id: int) -> RunHeader:
    """The run's row as a value."""
    row = connection.execute(select(Run).where(Run.run_id == run_id)).one()
    return RunHeader(**{name: getattr(row, name) for name in HEADER_FIELDS})


def state_of_run(connection: Connection, run_id: int) -> tuple[str, str]:
    """(state, reason), the last committed; ("created", "") before the first."""
    row = connection.execute(
        select(RunState.state, RunState.reason)
        .where(RunState.run_id == run_id)
        .order_by(RunState.number.desc())
        .limit(1)
    ).one_or_none()
    return ("created", "") if row is None else (row.state, row.reason)


def closings_of(connection: Connection, run_id: int) -> dict[str, int]:
    """Leases by state, every state named: open, trained, skipped, aborted, expired."""
    counts = dict.fromkeys(("open", "trained", "skipped", "aborted", "expired"), 0)
    rows = connection.execute(
        select(LeaseRow.state, func.count().label("leases")).where(LeaseRow.run_id == run_id).group_by(LeaseRow.state)
    )
    return counts | {row.state: row.leases for row in rows}


def load_standing(connection: Connection, name: str | None) -> Standing:
    """How far the run is. Raises UsageError if there is no such run."""
    return Standing(**_standing(connection, find_run(connection, name)))


def _standing(connection: Connection, run_id: int) -> dict[str, Any]:
    state, reason = state_of_run(connection, run_id)
    candidates = select(func.count()).where(CandidateRow.run_id == run_id, CandidateRow.candidate > 0)
    ended = select(func.count()).where(GroupRow.run_id == run_id, GroupRow.state != "shipped")
    return {
        "run_id": run_id,
        "header": header_of(connection, run_id),
        "state": state,
        "reason": reason,
        "best": _member(connection, run_id, CandidateRow.merit.is_not(None)),
        "groups": connection.execute(ended).scalar_one(),
        "candidates": connection.execute(candidates).scalar_one(),
        "spend_usd": spend_of(connection, run_id),
        "reserved": reserved_of(connection, run_id),
        "changes": changes_of(connection, run_id),
    }


def load_record(connection: Connection, name: str | None) -> RunRecord:
    """The run as it stands. Raises UsageError if there is no such run."""
    run_id = find_run(connection, name)
    header = header_of(connection, run_id)
    counts = closings_of(connection, run_id)
    newest = connection.execute(
        select(VersionRow).where(VersionRow.run_id == run_id).order_by(VersionRow.version.desc()).limit(1)
    ).one()
    published = select(func.coalesce(func.max(VersionRow.version), 0)).where(
        VersionRow.run_id == run_id, VersionRow.state == "published"
    )
    last_group = select(func.coalesce(func.max(GroupRow.group_number), 0)).where(GroupRow.run_id == run_id)
    last_lease = select(func.coalesce(func.max(LeaseRow.lease), 0)).where(LeaseRow.run_id == run_id)
    seed_program = _member(connection, run_id, CandidateRow.candidate == 0)
    folded = fold(connection, run_id, header, seed_program)
    results = results_of(connection, run_id)
    return RunRecord(
        **_standing(connection, run_id),
        leases=_open_leases(connection, run_id, folded.pools, results.get("open", {})),
        islands=folded.islands,
        seed_program=seed_program,
        elites=_elites(connection, run_id, as_completed=header.max_staleness > 0),
        pools=folded.shown,
        version=newest.version,
        weights=newest.weights,
        published=connection.execute(published).scalar_one(),
        shipped=tuple(groups_of(connection, run_id, "shipped").values()),
        next_group=connection.execute(last_group).scalar_one() + 1,
        next_lease=connection.execute(last_lease).scalar_one() + 1,
        admitted=sum(counts.values()),
        closings={way: counts[way] for way in ("trained", "skipped", "aborted", "expired")},
        last_leases=_last_leases(connection, run_id),
        reservations=reservations_of(connection, run_id),
        spreads=_spreads_of(connection, run_id),
        health=_health_of(connection, run_id),
        secret=secret_of(connection, run_id),
        own_scores=own_scores_of(connection, run_id),
        results={**results.get("trained", {}), **results.get("skipped", {})},
    )


def _spreads_of(connection: Connection, run_id: int) -> Spreads:
    rows = connection.execute(
        select(LeaseRow.group_number, LeaseRow.group_reward)
        .where(LeaseRow.run_id == run_id, LeaseRow.group_number.is_not(None))
        .order_by(LeaseRow.group_number, LeaseRow.lease)
    )
    spreads = Spreads()
    for _, group in groupby(rows, key=lambda row: row.group_number):
        spreads = spreads.after([row.group_reward for row in group])
    return spreads


def _health_of(connection: Connection, run_id: int) -> Health:
    unparsed = func.sum(case((CandidateRow.outcome == "unparsed", 1), else_=0))
    of_lease = (CandidateRow.run_id == LeaseRow.run_id) & (CandidateRow.lease == LeaseRow.lease)
    by = (LeaseRow.group_number, LeaseRow.oldest_version)
    counted = connection.execute(
        select(*by, func.count().label("rollouts"), unparsed.label("unparsed"))
        .join(CandidateRow, of_lease)
        .where(LeaseRow.run_id == run_id, LeaseRow.group_number.is_not(None))
        .group_by(*by)
        .order_by(LeaseRow.group_number)
    ).all()
    rollouts = {
        number: {row.oldest_version: Count(row.rollouts, int(row.unparsed)) for row in rows}
        for number, rows in groupby(counted, key=lambda row: row.group_number)
    }
    health = Health()
    groups = select(GroupRow.group_number, GroupRow.update_number, GroupRow.restores).where(GroupRow.run_id == run_id)
    for group in connection.execute(groups.order_by(GroupRow.group_number)):
        health = health.after(group.update_number, rollouts.get(group.group_number, {}))
        if group.restores is not None:
            health = health.back(group.update_number)
    return health


def _last_leases(connection: Connection, run_id: int) -> dict[int, LastLease]:
    of_run = LeaseRow.run_id == run_id
    newest = select(func.max(LeaseRow.lease)).where(of_run).group_by(LeaseRow.island)
    rows = connection.execute(
        select(LeaseRow.island, LeaseRow.lease, LeaseRow.state).where(of_run, LeaseRow.lease.in_(newest))
    )
    return {row.island: LastLease(row.lease, row.state) for row in rows}


def _elites(connection: Connection, run_id: int, *, as_completed: bool) -> dict[int, Member]:
    of_lease = (LeaseRow.run_id == CandidateRow.run_id) & (LeaseRow.lease == CandidateRow.lease)
    seen = () if as_completed else (LeaseRow.state.in_(("trained", "skipped")),)
    best_first = (CandidateRow.merit.desc(), CandidateRow.candidate)
    place = func.row_number().over(partition_by=CandidateRow.island, order_by=best_first).label("place")
    placed = (
        select(CandidateRow.candidate, place)
        .join(LeaseRow, of_lease)
        .where(CandidateRow.run_id == run_id, CandidateRow.merit.is_not(None), *seen)
        .subquery()
    )
    rows = connection.execute(
        select(CandidateRow.island, CandidateRow.candidate, CandidateRow.program, CandidateRow.score)
        .join(placed, CandidateRow.candidate == placed.c.candidate)
        .where(CandidateRow.run_id == run_id, placed.c.place == 1)
        .order_by(CandidateRow.merit, CandidateRow.candidate.desc())
    )
    return {row.island: Member(row.candidate, row.program, row.score) for row in rows}


def _member(connection: Connection, run_id: int, which: ColumnElement[bool]) -> Member | None:
    row = connection.execute(
        select(CandidateRow.candidate, CandidateRow.program, CandidateRow.score)
        .where(CandidateRow.run_id == run_id, CandidateRow.merit.is_not(None), which)
        .order_by(CandidateRow.merit.desc(), CandidateRow.candidate)
        .limit(1)
    ).one_or_none()
    return None if row is None else Member(row.candidate, row.program, row.score)


def _open_leases(
    connection: Connection, run_id: int, pools: Mapping[int, Pool], results: Mapping[int, Result]
) -> tuple[OpenLease, ...]:
    rows = connection.execute(
        select(LeaseRow).where(LeaseRow.run_id == run_id, LeaseRow.state == "open").order_by(LeaseRow.lease)
    ).all()
    ids = [row.lease for row in rows]
    advice = advice_of(connection, run_id, ids)
    evaluations, claims = evaluations_of(connection, run_id, ids), claims_of(connection, run_id)
    tries = tries_of(connection, run_id, ids)
    choices, paid = choices_of(connection, run_id, ids), paid_of(connection, run_id, ids)
    stages = stages_of(connection, run_id, ids)
    return tuple(
        OpenLease(
            lease=row.lease,
            island=row.island,
            stage=row.stage,
            deadline=row.deadline,
            admitted_version=row.admitted_version,
            oldest_version=row.oldest_version,
            opened_at=row.opened_at,
            group=row.group_number,
            migrant=_member(connection, run_id, CandidateRow.candidate == row.migrant) if row.migrant else None,
            advice=advice.get(row.lease),
            evaluated=evaluations.get(row.lease),
            claim=claims.get(row.lease),
            ideas=pools.get(row.lease, ()),
            tries=tries.get(row.lease, ()),
            chosen=choices.get(row.lease),
            paid=paid.get(row.lease, {}),
            result=results.get(row.lease),
            stages=stages.get(row.lease, ()),
        )
        for row in rows
    )
