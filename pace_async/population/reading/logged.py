"""The facts of a run from which a logger's figures are made, read from its rows in the order of their times."""

from typing import Any

from sqlalchemy import Connection, select

from pace_async.events import Fact, FaultSeen, ImplementerCalled, ImplementerChecked, RunStateChanged
from pace_async.population.models import FaultRow, GroupRow, ImplementerCallRow, ImplementerCheckRow, RunStateRow
from pace_async.population.reading.news import candidates_of, groups_of, shipped_of


def logged_of(connection: Connection, run_id: int) -> tuple[Fact, ...]:
    """States, faults, calls, groups and candidates, oldest first, without programs and weights."""
    ended = connection.execute(select(GroupRow).where(GroupRow.run_id == run_id, GroupRow.state != "shipped")).all()
    numbers = connection.execute(select(GroupRow.group_number).where(GroupRow.run_id == run_id)).scalars().all()
    found: list[Fact] = [
        *(RunStateChanged(row.state, row.reason, row.at) for row in _rows(connection, RunStateRow, run_id)),
        *(FaultSeen(row.stage, row.kind, row.detail, row.lease, row.at) for row in _rows(connection, FaultRow, run_id)),
        *(_check(row) for row in _rows(connection, ImplementerCheckRow, run_id)),
        *(_call(row) for row in _rows(connection, ImplementerCallRow, run_id)),
        *candidates_of(connection, run_id, None),
        *shipped_of(connection, run_id, numbers).values(),
        *groups_of(connection, run_id, ended),
    ]
    return tuple(sorted(found, key=lambda fact: fact.at))


def _rows(connection: Connection, table: Any, run_id: int) -> Any:
    return connection.execute(select(table).where(table.run_id == run_id))


def _call(row: Any) -> ImplementerCalled:
    tokens = row.prompt_tokens, row.completion_tokens
    return ImplementerCalled(
        row.lease, row.model, row.outcome, *tokens, row.cost_usd, row.seconds, row.at, role=row.role
    )


def _check(row: Any) -> ImplementerChecked:
    tokens = row.prompt_tokens, row.completion_tokens
    return ImplementerChecked(row.model, *tokens, row.cost_usd, row.seconds, row.at, row.role)
