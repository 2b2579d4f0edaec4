"""A population in memory: the same tables, the same writes and the same reads as `population.store`, without a file.

For simulations: without threads and disk, a run of ten thousand candidates takes seconds. Not for real runs: the data
lives as long as the object.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection

from pace_async.events import Fact, RunHeader
from pace_async.population.base import Question
from pace_async.population.models import Base
from pace_async.population.reading.load import load_record
from pace_async.population.reading.questions import rows_of
from pace_async.population.reading.record import RunRecord
from pace_async.population.tables import engine_in_memory, make_tables
from pace_async.population.writing.scope import scope_of
from pace_async.population.writing.write_run import run_created
from pace_async.population.writing.writes import project, write

T = TypeVar("T")


class MemoryPopulation:
    """Implements `population.base.Population` for one run. The caller gives its `secret`, so that equal runs have equal
    rows. It keeps a journal only if that is asked for, because nobody resumes or follows it."""

    def __init__(
        self, header: RunHeader, *, secret: str = "simulated", at: float = 0.0, with_journal: bool = False
    ) -> None:
        self._connection = engine_in_memory().connect()
        self._database: Any = self._connection.connection.driver_connection
        make_tables(self._connection)
        self._connection.exec_driver_sql("PRAGMA foreign_keys=ON")
        self._run_id = run_created(self._connection, header, secret, at, with_journal=with_journal)
        self._connection.commit()
        self._scope = scope_of(self._connection, self._run_id, header)
        self._write = write if with_journal else project

    async def commit(self, *facts: Fact) -> None:
        """Write the facts in one transaction, all or none. Never waits. Raises PaceBug."""
        self._database.execute("BEGIN")
        try:
            for fact in facts:
                self._write(self._scope, fact)
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    async def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> Sequence[Mapping[str, Any]]:
        """Rows of a statement."""
        return rows_of(self._connection, sql, parameters)

    async def read(self, question: Question[T]) -> T:
        """The answer to a question."""
        return question(self._connection)

    @property
    def run_id(self) -> int:
        """The id of the written run."""
        return self._run_id

    def load(self) -> RunRecord:
        """The run's record, read from the rows."""
        return load_record(self._connection, None)

    def dump(self, without: Collection[str] = ()) -> Iterator[str]:
        """`rows_as_text` of it."""
        return rows_as_text(self._connection, without)

    def close(self) -> None:
        """Dispose of the database."""
        self._connection.close()


def rows_as_text(connection: Connection, without: Collection[str] = ()) -> Iterator[str]:
    """Every row of every table of a population, tables by name, rows by key. Columns in `without` are left out."""
    for table in sorted(Base.metadata.tables.values(), key=lambda table: table.name):
        keys = ", ".join(column.name for column in table.primary_key)
        columns = ", ".join(column.name for column in table.columns if column.name not in without)
        for row in connection.exec_driver_sql(f"SELECT {columns} FROM {table.name} ORDER BY {keys}"):
            yield f"{table.name}: {tuple(row)!r}"
