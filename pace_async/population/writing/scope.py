"""The context of every write, and the error of a write that would break the record."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, func, insert, select

from pace_async.errors import PaceBug
from pace_async.events import RunHeader
from pace_async.fitness import Fitness
from pace_async.population.fields import row_of
from pace_async.population.journal.stored import as_stored
from pace_async.population.models import Base, LeaseRow
from pace_async.population.prepared import Prepared
from pace_async.registry.staleness_policies import policy_of

OF_RUN: BindParameter[int] = bindparam("of_run")
OF_LEASE: BindParameter[int] = bindparam("of_lease")
STANDING = (LeaseRow.run_id == OF_RUN, LeaseRow.lease == OF_LEASE, LeaseRow.state == "open")
"""The condition of an UPDATE of one open lease."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One run inside one open transaction. `fitness` and `max_staleness` are the run's. `max_staleness` is None if
    the policy sets no bound on training."""

    connection: Connection
    run_id: int
    fitness: Fitness
    max_staleness: int | None

    def merit(self, score: float | None) -> float | None:
        """The column by which candidates are ranked."""
        return None if score is None else self.fitness.merit(score)

    def add(self, table: type[Base], *rows: dict[str, Any]) -> None:
        """Insert rows, all with the same columns. Adds run_id to each. A program of several files is written as its
        manifest, and its files with the fact's entry in the journal."""
        if rows:
            for row in rows:
                row["run_id"] = self.run_id
                if isinstance(program := row.get("program"), str):
                    row["program"] = as_stored(program)
            _insert(table, tuple(rows[0])).run(self.connection, *rows)

    def record(self, table: type[Base], fact: object, **more: object) -> None:
        """Insert one row with the fields of a fact and with `more`, as `row_of` makes it."""
        self.add(table, row_of(table, fact, **more))

    def value(self, statement: Prepared, **of: object) -> Any:
        """The first value of the first row, or None without a row. Passes `of_run`."""
        return statement.value(self.connection, {"of_run": self.run_id, **of})

    def values(self, statement: Prepared, **of: object) -> list[Any]:
        """The first value of each row. Passes `of_run`."""
        return statement.values(self.connection, {"of_run": self.run_id, **of})

    def each(self, statement: Prepared, broken: Callable[[], str], rows: Sequence[dict[str, Any]]) -> None:
        """Run an UPDATE that must change exactly one row for each of these. `broken` gives the error message if it does
        not. Passes `of_run`."""
        for row in rows:
            row["of_run"] = self.run_id
        if statement.run(self.connection, *rows) != len(rows):
            raise PaceBug(broken())

    def one(self, statement: Prepared, broken: Callable[[], str], **parameters: object) -> None:
        """Run an UPDATE that must change exactly one row. `broken` gives the error message if it does not. Passes
        `of_run`."""
        parameters["of_run"] = self.run_id
        if statement.run(self.connection, parameters) != 1:
            raise PaceBug(broken())

    def lease_is(self, lease: int) -> str:
        """A lease's state in words."""
        row = self.connection.execute(
            select(LeaseRow.state, LeaseRow.stage).where(LeaseRow.run_id == self.run_id, LeaseRow.lease == lease)
        ).one_or_none()
        return "was never opened" if row is None else f"is {row.state}, {row.stage}"


def next_number(table: Any) -> Prepared:
    """A statement for the run's next `number` in `table`: the greatest plus 1, or 1."""
    return Prepared(select(func.coalesce(func.max(table.number), 0) + 1).where(table.run_id == OF_RUN))


@cache
def _insert(table: type[Base], columns: tuple[str, ...]) -> Prepared:
    return Prepared(insert(table), columns)


def scope_of(connection: Connection, run_id: int, header: RunHeader) -> Scope:
    """The scope of a run. Only the policy `soft` trains rollouts beyond the bound."""
    return Scope(
        connection, run_id, header.fitness, header.max_staleness if policy_of(header.policy).bounds_maximum else None
    )
