"""Appends facts to a run's journal, in the transaction that writes their rows.

Invariant: `seq` counts from 1 without a gap in the order of the commits, because a run has one writer and a transaction
that is rolled back leaves nothing. A journal is complete or absent: nothing is appended to one that was not begun.
"""

from collections.abc import Iterable
from typing import Any, cast

from sqlalchemy import BindParameter, Connection, Double, Integer, LargeBinary, Text, bindparam, exists, insert, select

from pace_async.events import Fact, RunHeader
from pace_async.population.journal.bodies import Entry, Recorded, entry_of
from pace_async.population.models import BlobRow, JournalRow
from pace_async.population.prepared import Prepared
from pace_async.population.writing.scope import OF_RUN, Scope

_NOW: BindParameter[float] = bindparam("now", type_=cast("Any", Double()))
_NEXT = Prepared(
    insert(JournalRow).from_select(
        ("run_id", "seq", "at", "kind", "lease", "body"),
        select(
            JournalRow.run_id,
            JournalRow.seq + 1,
            _NOW,
            bindparam("of_kind", type_=Text()),
            bindparam("of_lease", type_=Integer()),
            bindparam("told", type_=Text()),
        )
        .where(JournalRow.run_id == OF_RUN)
        .order_by(JournalRow.seq.desc())
        .limit(1),
    )
)
"""Appends nothing where the journal has no row."""
_ADD = Prepared(insert(JournalRow), ("run_id", "seq", "at", "kind", "lease", "body"))
_KEEP = Prepared(
    insert(BlobRow).from_select(
        ("run_id", "digest", "content"),
        select(
            bindparam("of_run", type_=Integer()),
            bindparam("of_digest", type_=Text()),
            bindparam("held", type_=LargeBinary()),
        ).where(~exists().where(BlobRow.run_id == OF_RUN, BlobRow.digest == bindparam("of_digest", type_=Text()))),
    )
)


def journal_begun(connection: Connection, run_id: int, header: RunHeader, at: float) -> None:
    """The first row: the run's header, at the time of its creation."""
    _add(connection, run_id, 1, entry_of(header, at))


def journal_imported(connection: Connection, run_id: int, facts: Iterable[tuple[float, Recorded]]) -> None:
    """A whole journal, from facts with their times, the header first. The run has none yet."""
    for seq, (at, fact) in enumerate(facts, start=1):
        entry = entry_of(fact, at)
        _add(connection, run_id, seq, entry)
        _keep(connection, run_id, entry)


def append(scope: Scope, fact: Fact) -> None:
    """The next row, and the blobs that are new."""
    entry = entry_of(fact)
    row = {"of_run": scope.run_id, "now": entry.at, "of_kind": entry.kind, "of_lease": entry.lease, "told": entry.body}
    if _NEXT.run(scope.connection, row):
        _keep(scope.connection, scope.run_id, entry)


def _add(connection: Connection, run_id: int, seq: int, entry: Entry) -> None:
    row = {"run_id": run_id, "seq": seq, "at": entry.at, "kind": entry.kind, "lease": entry.lease, "body": entry.body}
    _ADD.run(connection, row)


def _keep(connection: Connection, run_id: int, entry: Entry) -> None:
    for digest, content in entry.blobs.items():
        _KEEP.run(connection, {"of_run": run_id, "of_digest": digest, "held": content})
