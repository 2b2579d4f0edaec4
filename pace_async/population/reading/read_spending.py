"""Reads money, the results of calls, and the settings that resumes changed."""

import json
from collections import defaultdict
from collections.abc import Collection
from typing import Any, cast, get_args

from sqlalchemy import ColumnElement, Connection, and_, func, select

from pace_async.events import ImplementerReserved, ImplementerTry, Role
from pace_async.events.priced import roles_without_price
from pace_async.population.fields import fact_of
from pace_async.population.models import (
    ImplementerCallRow,
    ImplementerCheckRow,
    ImplementerTryRow,
    ReservationRow,
    RunRow,
    SettingChangeRow,
)
from pace_async.population.reading.programs import whole_or_none


def spend_of(connection: Connection, run_id: int) -> float:
    """USD paid to models: their calls and the checks."""
    return sum(
        connection.execute(
            select(func.coalesce(func.sum(table.cost_usd), 0.0)).where(table.run_id == run_id)
        ).scalar_one()
        for table in (ImplementerCallRow, ImplementerCheckRow)
    )


def spend_by_role(connection: Connection, run_id: int) -> dict[str, float]:
    """USD paid for each of those who asked, checks included."""
    spent: defaultdict[str, float] = defaultdict(float)
    for table in (ImplementerCallRow, ImplementerCheckRow):
        summed = select(table.role, func.sum(table.cost_usd)).where(table.run_id == run_id).group_by(table.role)
        for role, usd in connection.execute(summed):
            spent[role] += usd
    return {role: spent[role] for role in get_args(Role)}


def unpriced_of(connection: Connection, run_id: int) -> frozenset[Role]:
    """The roles with calls whose price is not known, checks included."""
    return unpriced_by_run(connection, run_id).get(run_id, frozenset())


def unpriced_by_run(connection: Connection, run_id: int | None = None) -> dict[int, frozenset[Role]]:
    """The roles with calls whose price is not known, by run. Runs without one are left out. All runs if `run_id` is
    None."""
    by_run: defaultdict[int, set[Role]] = defaultdict(set)
    for table in (ImplementerCallRow, ImplementerCheckRow):
        free = select(table.run_id, table.role).where(cost_nothing(table)).distinct()
        for row in connection.execute(free if run_id is None else free.where(table.run_id == run_id)):
            by_run[row.run_id].add(cast("Role", row.role))
    if not by_run:
        return {}
    settings = connection.execute(select(RunRow.run_id, RunRow.config).where(RunRow.run_id.in_(by_run)))
    unpriced = {row.run_id: by_run[row.run_id] & roles_without_price(row.config) for row in settings}
    return {run: frozenset(roles) for run, roles in unpriced.items() if roles}


def cost_nothing(table: Any) -> ColumnElement[bool]:
    """Whether a call took tokens and was counted with 0 USD."""
    return and_(table.cost_usd == 0, table.prompt_tokens + table.completion_tokens > 0)


def reserved_of(connection: Connection, run_id: int) -> tuple[ImplementerReserved, ...]:
    """Reservations that no call has closed, oldest first."""
    rows = connection.execute(
        select(ReservationRow)
        .where(ReservationRow.run_id == run_id, ReservationRow.ordinal.is_(None))
        .order_by(ReservationRow.number)
    )
    return tuple(fact_of(ImplementerReserved, ReservationRow, row) for row in rows)


def changes_of(connection: Connection, run_id: int) -> dict[str, object]:
    """The settings that resumes changed, by dotted key, the latest value of each."""
    rows = connection.execute(
        select(SettingChangeRow.key, SettingChangeRow.after)
        .where(SettingChangeRow.run_id == run_id)
        .order_by(SettingChangeRow.number)
    )
    return {row.key: json.loads(row.after) for row in rows}


def tries_by_call(
    connection: Connection, run_id: int, leases: Collection[int]
) -> dict[tuple[int, int], ImplementerTry]:
    """The models' answers, by lease and by the number of the call within it, in their order."""
    same_call = and_(
        ImplementerCallRow.run_id == ImplementerTryRow.run_id,
        ImplementerCallRow.lease == ImplementerTryRow.lease,
        ImplementerCallRow.ordinal == ImplementerTryRow.ordinal,
    )
    rows = connection.execute(
        select(ImplementerTryRow, ImplementerCallRow.model)
        .join(ImplementerCallRow, same_call)
        .where(ImplementerTryRow.run_id == run_id, ImplementerTryRow.lease.in_(leases))
        .order_by(ImplementerTryRow.lease, ImplementerTryRow.number)
    )
    return {
        (row.lease, row.ordinal): fact_of(
            ImplementerTry,
            ImplementerTryRow,
            row,
            model=row.model,
            program=whole_or_none(connection, run_id, row.program),
            evaluation_detail=row.evaluation_detail or "",
        )
        for row in rows
    }


def tries_of(connection: Connection, run_id: int, lease: int) -> tuple[ImplementerTry, ...]:
    """The models' answers to one experiment, oldest first."""
    return tuple(tries_by_call(connection, run_id, [lease]).values())
