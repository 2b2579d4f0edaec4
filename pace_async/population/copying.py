"""Copies one run from a population into another, between SQLite files and PostgreSQL servers, in one transaction.

Invariant: the target holds every row of the run, proven by the number of rows and a digest of each table that were read
back before the commit, or it is unchanged. The run keeps its name and gets a number of its own there. A digest is over
the values of a table's rows without that number, in any order, so that it is the same on both kinds of database.
"""

import hashlib
import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any, cast

from sqlalchemy import Connection, Table, insert, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from pace_async.errors import GaveUp, UsageError
from pace_async.population.connect import Place, dangling, engine, hold, in_words, locate
from pace_async.population.models import Base, RunRow
from pace_async.population.reading.load import find_run, header_of
from pace_async.population.schema import refuse_unless_current, schema_state, upgrade

BATCH = 500
"""Rows written at once."""
MODULUS = 1 << 256
EXACT = 1 << 53
"""Whole numbers below it are the same as floats."""


@dataclass(frozen=True, slots=True)
class TableCopied:
    """The rows of a run in one table, and the digest that both sides have."""

    table: str
    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class RunCopied:
    """A run and its tables, by name."""

    run: str
    tables: tuple[TableCopied, ...]


@contextmanager
def run_copied(source: str | Place, name: str | None, target: str | Place) -> Generator[RunCopied]:
    """Copy the run called `name`, or the only one, to `target`, which is made or must have this version's schema. The
    copy is committed when the body ends, and taken back if it raises. Raises UsageError if the target holds a run of
    that name, RunLocked if the run is being driven, GaveUp if a database fails."""
    here, there = locate(source), locate(target)
    _refuse_unless_current(here)
    if schema_state(there) == "none":
        upgrade(there)
    _refuse_unless_current(there)
    reader, writer = engine(here, "read"), engine(there, "write")
    try:
        with reader.connect() as read, writer.begin() as written:
            run_id = find_run(read, name)
            hold(read, run_id)
            run = header_of(read, run_id).name
            if written.execute(select(RunRow.run_id).where(RunRow.name == run)).first() is not None:
                raise UsageError(f"{there} already holds a run {run!r}: nothing was copied.")
            yield RunCopied(run, _tables_copied(read, run_id, written, there))
            read.rollback()
    except IntegrityError as error:
        raise UsageError(f"{there} refuses the run: {str(error.orig).splitlines()[0]}; nothing was copied.") from None
    except DBAPIError as error:
        raise GaveUp(f"The run could not be copied ({in_words(error)}): nothing was copied, try again later.") from None
    finally:
        reader.dispose()
        writer.dispose()


def _refuse_unless_current(place: Place) -> None:
    state = schema_state(place)
    if state == "none":
        raise UsageError(f"There is no population at {place}.")
    refuse_unless_current(state, str(place))


def _tables_copied(read: Connection, run_id: int, written: Connection, target: Place) -> tuple[TableCopied, ...]:
    tables, copied = Base.metadata.sorted_tables, list[TableCopied]()
    new_id = 0
    for table in tables:
        if table is RunRow.__table__:
            [row] = rows_of_run(read, table, run_id)
            created = written.execute(insert(RunRow).values(**row).returning(RunRow.run_id))
            new_id = created.scalar_one()
        else:
            rows = rows_of_run(read, table, run_id)
            _insert(written, table, new_id, _parents_first(rows) if table.name == "candidates" else rows)
        before, after = digest_of(read, table, run_id), digest_of(written, table, new_id)
        if before != after:
            raise UsageError(
                f"The copy of table {table.name} has {after.rows} rows with digest {after.digest[:12]}, and "
                f"{before.rows} with {before.digest[:12]} were read: nothing was copied to {target}."
            )
        copied.append(after)
    if broken := dangling(written):
        raise UsageError(f"The run is damaged, and was not copied: {broken[0]}.")
    return tuple(sorted(copied, key=lambda entry: entry.table))


def rows_of_run(connection: Connection, table: Table, run_id: int) -> Iterator[dict[str, Any]]:
    """The rows of a run in a table by key, without the run's number."""
    columns = [column for column in table.columns if column.name != "run_id"]
    statement = select(*columns).where(table.c.run_id == run_id).order_by(*table.primary_key.columns)
    for row in connection.execute(statement, execution_options={"yield_per": BATCH}).mappings():
        yield dict(row)


def digest_of(connection: Connection, table: Table, run_id: int) -> TableCopied:
    """The rows of a run in a table. The digest is the sum of the rows' SHA-256, because databases order texts
    differently."""
    count, total = 0, 0
    for row in rows_of_run(connection, table, run_id):
        total = (total + int.from_bytes(_digest(row))) % MODULUS
        count += 1
    return TableCopied(table.name, count, f"{total:064x}")


def digests_by_key(connection: Connection, table: Table, run_id: int) -> dict[str, str]:
    """The digest of each row of a run in a table, by the row's key without the run's number, in words."""
    names = [column.name for column in table.primary_key if column.name != "run_id"]
    rows = rows_of_run(connection, table, run_id)
    return {", ".join(str(row[name]) for name in names): _digest(row).hex() for row in rows}


def _digest(row: Mapping[str, object]) -> bytes:
    return hashlib.sha256(json.dumps(_plain(row), sort_keys=True, allow_nan=True).encode()).digest()


def _plain(value: object) -> object:
    """A value as both kinds of database give it: bytes as hexadecimal digits, and 3 the same number as 3.0."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return float(value) + 0.0 if abs(value) < EXACT else _large(value)  # PostgreSQL's JSON has no -0.0
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in cast("Mapping[str, object]", value).items()}
    return [_plain(item) for item in cast("Iterable[object]", value)]


def _large(value: float) -> str:
    """PostgreSQL writes 1.5e308 in JSON with all its digits, so that it is read back as a whole number."""
    try:
        shortest = repr(float(value))
    except OverflowError:
        return repr(value)
    return shortest if isinstance(value, float) or Decimal(shortest) == value else repr(value)


def _insert(connection: Connection, table: Table, run_id: int, rows: Iterator[dict[str, Any]]) -> None:
    while batch := [{**row, "run_id": run_id} for row in islice(rows, BATCH)]:
        connection.execute(insert(table), batch)


def _parents_first(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Candidates, each after its parent, which may have a greater number. Raises UsageError for one without."""
    yielded, waiting = set[int](), dict[int, list[dict[str, Any]]]()
    for row in rows:
        if row["parent"] is not None and row["parent"] not in yielded:
            waiting.setdefault(row["parent"], []).append(row)
            continue
        ready = [row]
        while ready:
            next_row = ready.pop()
            yielded.add(next_row["candidate"])
            ready.extend(waiting.pop(next_row["candidate"], ()))
            yield next_row
    if waiting:
        raise UsageError(
            f"The run is damaged, and was not copied: candidate {min(waiting)} is a parent and has no row."
        )
