"""What every write needs to know, and how a write says that the record would be broken."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, func, insert, select

from pace_async.errors import PaceBug
from pace_async.events import RunHeader
from pace_async.population.models import Base, LeaseRow
from pace_async.population.prepared import Prepared

OF_RUN: BindParameter[int] = bindparam("of_run")
OF_LEASE: BindParameter[int] = bindparam("of_lease")
STANDING = (LeaseRow.run_id == OF_RUN, LeaseRow.lease == OF_LEASE, LeaseRow.state == "open")
"""What an UPDATE of one open lease asks for."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One run inside one open transaction. `direction` and `max_staleness` are the run's; the latter
    is None where the policy does not bound what is trained."""

    connection: Connection
    run_id: int
    direction: str
    max_staleness: int | None

    def add(self, table: type[Base], *rows: dict[str, Any]) -> None:
        """Insert rows, all with the same columns; run_id is put into each."""
        if rows:
            for row in rows:
                row["run_id"] = self.run_id
            _insert(table, tuple(rows[0])).run(self.connection, *rows)

    def value(self, statement: Prepared, **of: object) -> Any:
        """The first value of the first row, or None where there is no row. `of_run` is given."""
        return statement.value(self.connection, {"of_run": self.run_id, **of})

    def values(self, statement: Prepared, **of: object) -> list[Any]:
        """The first value of each row. `of_run` is given."""
        return statement.values(self.connection, {"of_run": self.run_id, **of})

    def each(self, statement: Prepared, broken: Callable[[], str], rows: Sequence[dict[str, Any]]) -> None:
        """Run an UPDATE that must change exactly one row for each of these; `broken` says what it means that it did
        not. `of_run` is put into each."""
        for row in rows:
            row["of_run"] = self.run_id
        if statement.run(self.connection, *rows) != len(rows):
            raise PaceBug(broken())

    def one(self, statement: Prepared, broken: Callable[[], str], **parameters: object) -> None:
        """Run an UPDATE that must change exactly one row; `broken` says what it means that it did not. `of_run` is
        given."""
        parameters["of_run"] = self.run_id
        if statement.run(self.connection, parameters) != 1:
            raise PaceBug(broken())

    def lease_is(self, lease: int) -> str:
        """How a lease stands, in words."""
        row = self.connection.execute(
            select(LeaseRow.state, LeaseRow.stage).where(LeaseRow.run_id == self.run_id, LeaseRow.lease == lease)
        ).one_or_none()
        return "was never opened" if row is None else f"is {row.state}, {row.stage}"


def next_number(table: Any) -> Prepared:
    """Asks for 1 more than the greatest `number` that the run has in `table`, or 1."""
    return Prepared(select(func.coalesce(func.max(table.number), 0) + 1).where(table.run_id == OF_RUN))


@cache
def _insert(table: type[Base], columns: tuple[str, ...]) -> Prepared:
    return Prepared(insert(table), columns)


def scope_of(connection: Connection, run_id: int, header: RunHeader) -> Scope:
    """The scope of a run. Only the policy `soft` trains what is older than the bound."""
    return Scope(connection, run_id, header.direction, None if header.policy == "soft" else header.max_staleness)
