"""Checks a population: the promises that its rows keep (`reading.audit`), and that the tables are those of the journal.

Also that the newest snapshot of a run is what its facts come to. A run of a version without a journal gets one here, if
the tables that follow from it are those that it has.

The tables of a run are made again from its journal in a temporary database of SQLite, which keeps a small part in
memory, by the functions that fill a running run's tables. So a difference means that a row was changed by other hands,
or that a fact was not written completely. Only the run's secret stands in no fact.
"""

import sqlite3
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, cast

from sqlalchemy import Connection, Engine, Table, create_engine, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from pace_async.errors import PaceBug
from pace_async.events import RunHeader, SettingChanged
from pace_async.population.columns import clean_json
from pace_async.population.copying import digest_of, digests_by_key
from pace_async.population.models import Base, BlobRow, InboxRow, JournalRow, RunRow, SecretRow, SnapshotRow
from pace_async.population.reading.audit import SHOWN, Check, audit
from pace_async.population.reading.importing.facts import inferred_facts
from pace_async.population.reading.journal import DamagedJournal, entries_of, has_journal, last_seq
from pace_async.population.reading.load import header_of
from pace_async.population.reading.reader import Reader
from pace_async.population.reading.replay import states_at
from pace_async.population.reading.snapshots import newest_snapshot
from pace_async.population.tables import make_tables
from pace_async.population.writing.scope import scope_of
from pace_async.population.writing.write_journal import journal_imported
from pace_async.population.writing.write_run import run_created
from pace_async.population.writing.writes import project
from pace_async.state.run_state import RunState

OF_A_PROCESS = {"terms", "weights", "claimed", "lent", "lent_programs"}
"""Parts of a state that its process sets: the terms, where it has the weights, and what only it needs."""
NOT_PROJECTED = {table.__tablename__ for table in (SecretRow, JournalRow, BlobRow, SnapshotRow, InboxRow)}


def check_population(reader: Reader) -> tuple[Check, ...]:
    """Every check of the file and of the runs in it, all of one moment."""
    return reader.answer(lambda connection: tuple(_checks(connection)))


def _checks(connection: Connection) -> Iterator[Check]:
    broken = False
    for check in audit(connection):
        broken = broken or (check.name == "file" and not check.ok)
        yield check
    if not broken:
        for run_id, name in connection.execute(select(RunRow.run_id, RunRow.name).order_by(RunRow.run_id)).all():
            yield check_journal(connection, run_id, f"journal ({name})")
            yield _check_snapshot(connection, run_id, f"snapshot ({name})")


def check_journal(connection: Connection, run_id: int, name: str) -> Check:
    """The check, called `name`, that a run's tables are those that its journal gives."""
    facts = last_seq(connection, run_id)
    if not facts:
        return Check(name, "none: the run began in an earlier version")
    with _temporary() as projected:
        try:
            new_id = project_run(connection, run_id, projected)
        except (DamagedJournal, PaceBug, DBAPIError) as error:
            return Check(name, f"{facts} facts", (f"the journal cannot be read again: {error}",))
        wrong = _differences(connection, run_id, projected, new_id)
        return Check(name, f"{facts} facts, and the tables are theirs", tuple(wrong))


def import_journal(connection: Connection, run_id: int) -> None:
    """Give a run of a version without a journal its own, in the open transaction. The tables made again from it are
    those of the run, row by row, or the run stays without one. Raises PaceBug for rows that no run can have written."""
    if has_journal(connection, run_id):
        return
    with connection.begin_nested() as written:
        journal_imported(connection, run_id, inferred_facts(connection, run_id))
        if check_journal(connection, run_id, "journal").wrong:
            written.rollback()


def _check_snapshot(connection: Connection, run_id: int, name: str) -> Check:
    """The check that the state in the newest snapshot is the one that the facts up to it come to."""
    snapshot = newest_snapshot(connection, run_id)
    if snapshot is None:
        return Check(name, "none")
    of = f"of {snapshot.seq} facts"
    try:
        restored, folded = states_at(connection, run_id, header_of(connection, run_id), snapshot)
    except ValueError as error:
        return Check(name, of, (f"the snapshot {of} does not read: {error}",))
    wrong = [
        field.name
        for field in fields(RunState)
        if field.name not in OF_A_PROCESS and _differs(restored, folded, field.name)
    ]
    return Check(name, of, tuple(f"the snapshot {of} has another {part} than they give" for part in wrong))


def _differs(restored: RunState, folded: RunState, name: str) -> bool:
    """Whether the two differ in what a population keeps: a number that is not finite is none there."""
    value, other = getattr(restored, name), getattr(folded, name)
    return value != other and _plain(value) != _plain(other)


def _plain(value: Any) -> Any:
    """The value in lists, with all that takes part in its comparison."""
    if is_dataclass(value):
        return [_plain(getattr(value, field.name)) for field in fields(value) if field.compare]
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return sorted(([_plain(key), _plain(item)] for key, item in pairs), key=repr)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("list[Any]", value)]
    return clean_json(value)


def project_run(connection: Connection, run_id: int, target: Connection) -> int:
    """Make the run's tables in `target`, which holds none, from its journal. Returns its run_id there. Raises
    DamagedJournal, PaceBug for facts that contradict each other."""
    entries = entries_of(connection, run_id)
    first = next(entries, None)
    if first is None or not isinstance(header := first.fact, RunHeader):
        raise DamagedJournal("the first fact is not the run's header")
    new_id = run_created(target, header, "", first.at, with_journal=False)
    scope = scope_of(target, new_id, header)
    for entry in entries:
        if isinstance(entry.fact, RunHeader):
            raise DamagedJournal(f"fact {entry.seq} is a second header")
        project(scope, entry.fact)
        if isinstance(entry.fact, SettingChanged) and entry.fact.key == "staleness.max_staleness":
            header = replace(header, max_staleness=int(entry.fact.after))
            scope = scope_of(target, new_id, header)
    return new_id


def _differences(connection: Connection, run_id: int, projected: Connection, new_id: int) -> Iterator[str]:
    """The tables that differ, each with its first row that does, at most SHOWN."""
    count = 0
    for table in Base.metadata.sorted_tables:
        if table.name in NOT_PROJECTED or count == SHOWN:
            continue
        stored, expected = digest_of(connection, table, run_id), digest_of(projected, table, new_id)
        if stored != expected:
            count += 1
            yield _difference(
                table, digests_by_key(connection, table, run_id), digests_by_key(projected, table, new_id)
            )


def _difference(table: Table, stored: dict[str, str], expected: dict[str, str]) -> str:
    key = next(key for key in {**expected, **stored} if stored.get(key) != expected.get(key))
    how = "is not in the journal" if key not in expected else "is missing" if key not in stored else "differs from it"
    return f"{table.name}: row {key} {how}"


@cache
def _temporary_engine() -> Engine:
    """Each connection is its own database."""
    return create_engine("sqlite://", creator=lambda: sqlite3.connect("", isolation_level=None), poolclass=NullPool)


@contextmanager
def _temporary() -> Generator[Connection]:
    """An empty population that ends with the body."""
    with _temporary_engine().connect() as connection:
        make_tables(connection)
        own = connection.connection.driver_connection
        assert own is not None
        own.execute("BEGIN")
        yield connection
        own.execute("ROLLBACK")
