"""What the rows say about money, and which settings resumes have changed."""

import json

from sqlalchemy import Connection, func, select

from pace_async.events import ImplementerReserved
from pace_async.population.models import (
    ImplementerCallRow,
    ImplementerCheckRow,
    ReservationRow,
    SettingChangeRow,
)


def spend_of(connection: Connection, run_id: int) -> float:
    """USD paid to implementers: their calls and the checks."""
    return sum(
        connection.execute(
            select(func.coalesce(func.sum(table.cost_usd), 0.0)).where(table.run_id == run_id)
        ).scalar_one()
        for table in (ImplementerCallRow, ImplementerCheckRow)
    )


def reserved_of(connection: Connection, run_id: int) -> tuple[ImplementerReserved, ...]:
    """Reservations that no call has closed, oldest first."""
    rows = connection.execute(
        select(ReservationRow)
        .where(ReservationRow.run_id == run_id, ReservationRow.ordinal.is_(None))
        .order_by(ReservationRow.number)
    )
    return tuple(ImplementerReserved(row.number, row.lease, row.model, row.cost_usd, row.at) for row in rows)


def reservations_of(connection: Connection, run_id: int) -> int:
    """Reservations ever made; the next one's number is one more."""
    last = select(func.coalesce(func.max(ReservationRow.number), 0)).where(ReservationRow.run_id == run_id)
    return connection.execute(last).scalar_one()


def changes_of(connection: Connection, run_id: int) -> dict[str, object]:
    """The settings that resumes changed, by dotted key, the latest value of each."""
    rows = connection.execute(
        select(SettingChangeRow.key, SettingChangeRow.after)
        .where(SettingChangeRow.run_id == run_id)
        .order_by(SettingChangeRow.number)
    )
    return {row.key: json.loads(row.after) for row in rows}
