"""What every write needs to know, and how a write says that the record would be broken."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from sqlalchemy import Connection, Insert, Update, func, insert, select

from pace_async.errors import PaceBug
from pace_async.events import RunHeader
from pace_async.population.models import Base, LeaseRow


@dataclass(frozen=True, slots=True)
class Scope:
    """One run inside one open transaction. `direction` and `max_staleness` are the run's; the latter
    is None where the policy does not bound what is trained."""

    connection: Connection
    run_id: int
    direction: str
    max_staleness: int | None

    def add(self, table: type[Base], *rows: dict[str, Any]) -> None:
        """Insert rows; run_id is added to each."""
        if len(rows) == 1:
            self.connection.execute(_insert(table), {"run_id": self.run_id, **rows[0]})
        elif rows:
            self.connection.execute(_insert(table), [{"run_id": self.run_id, **row} for row in rows])

    def count_after(self, number: Any, *where: Any) -> int:
        """1 more than the greatest `number` of the rows `where`, or 1."""
        return self.connection.execute(select(func.coalesce(func.max(number), 0) + 1).where(*where)).scalar_one()

    def one(self, statement: Update, broken: Callable[[], str], parameters: Mapping[str, object] | None = None) -> None:
        """Run an UPDATE that must change exactly one row; `broken` says what it means that it did not."""
        if self.connection.execute(statement, parameters).rowcount != 1:
            raise PaceBug(broken())

    def lease_is(self, lease: int) -> str:
        """How a lease stands, in words."""
        row = self.connection.execute(
            select(LeaseRow.state, LeaseRow.stage).where(LeaseRow.run_id == self.run_id, LeaseRow.lease == lease)
        ).one_or_none()
        return "was never opened" if row is None else f"is {row.state}, {row.stage}"


@cache
def _insert(table: type[Base]) -> Insert:
    """Made once for each table: building a statement costs more than running it."""
    return insert(table)


def scope_of(connection: Connection, run_id: int, header: RunHeader) -> Scope:
    """The scope of a run. Only the policy `soft` trains what is older than the bound."""
    staleness = header.config.get("staleness")
    soft = isinstance(staleness, Mapping) and cast("Mapping[str, object]", staleness).get("policy") == "soft"
    return Scope(connection, run_id, header.direction, None if soft else header.max_staleness)
