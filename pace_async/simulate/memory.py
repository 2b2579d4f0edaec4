"""A population in memory: the same tables, the same writes and the same reads as `population.store`, without a file.

For simulations: no thread, no disk, so nothing is waited for and runs of ten thousand candidates take seconds. Not for
runs that matter: what is committed lives as long as the object.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import StaticPool

from pace_async.events import Fact, RunHeader
from pace_async.population.load import load_record
from pace_async.population.models import Base
from pace_async.population.questions import rows_of
from pace_async.population.record import RunRecord
from pace_async.population.scope import scope_of
from pace_async.population.write_run import run_created
from pace_async.population.writes import write


class MemoryPopulation:
    """Implements `population.base.Population` for one run. Its `secret` is given: equal runs have equal rows."""

    def __init__(self, header: RunHeader, *, secret: str = "simulated", at: float = 0.0) -> None:
        self._engine = create_engine(
            "sqlite://", poolclass=StaticPool, connect_args={"isolation_level": None, "check_same_thread": False}
        )
        self._connection = self._engine.connect()
        self._connection.exec_driver_sql("PRAGMA foreign_keys=ON")
        Base.metadata.create_all(self._connection)
        self._run_id = run_created(self._connection, header, secret, at)
        self._connection.commit()
        self._database: Any = self._connection.connection.driver_connection
        self._scope = scope_of(self._connection, self._run_id, header)

    async def commit(self, *facts: Fact) -> None:
        """Write the facts in one transaction, all or none. Never waits. Raises PaceBug."""
        self._database.execute("BEGIN")
        try:
            for fact in facts:
                write(self._scope, fact)
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    async def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> Sequence[Mapping[str, Any]]:
        """Rows of a statement."""
        return rows_of(self._connection, sql, parameters)

    def load(self) -> RunRecord:
        """The run as the rows have it."""
        return load_record(self._connection, None)

    def dump(self, without: Collection[str] = ()) -> Iterator[str]:
        """`rows_as_text` of it."""
        return rows_as_text(self._connection, without)

    def close(self) -> None:
        """Let go of it."""
        self._connection.close()
        self._engine.dispose()


def rows_as_text(connection: Connection, without: Collection[str] = ()) -> Iterator[str]:
    """Every row of every table of a population, tables by name, rows by key; columns in `without` are left out."""
    for table in sorted(Base.metadata.tables.values(), key=lambda table: table.name):
        keys = ", ".join(column.name for column in table.primary_key)
        columns = ", ".join(column.name for column in table.columns if column.name not in without)
        for row in connection.exec_driver_sql(f"SELECT {columns} FROM {table.name} ORDER BY {keys}"):
            yield f"{table.name}: {tuple(row)!r}"
