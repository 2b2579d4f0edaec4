"""The facts of a run from its journal, in the order of their commits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Row, bindparam, func, select

from pace_async.population.journal.bodies import Recorded, fact_of
from pace_async.population.journal.stored import Lookup, content_of, digest_of
from pace_async.population.models import BlobRow, JournalRow
from pace_async.population.prepared import Prepared

BATCH = 500
"""Rows read at once."""
_BLOB = Prepared(
    select(BlobRow.content).where(BlobRow.run_id == bindparam("of_run"), BlobRow.digest == bindparam("of_digest"))
)


@dataclass(frozen=True, slots=True)
class Entered:
    """A fact with its number in the run's journal, from 1, and its time in seconds since the epoch."""

    seq: int
    at: float
    fact: Recorded


class DamagedJournal(ValueError):
    """A journal that no run can have written."""


def last_seq(connection: Connection, run_id: int) -> int:
    """The number of the newest fact, 0 for a run without a journal."""
    newest = select(func.coalesce(func.max(JournalRow.seq), 0)).where(JournalRow.run_id == run_id)
    return connection.execute(newest).scalar_one()


def entries_of(connection: Connection, run_id: int, after: int = 0) -> Iterator[Entered]:
    """The facts whose number is greater than `after`. Raises DamagedJournal, in words, for a gap, and for a body or a
    blob that does not read."""
    content = _lookup(connection, run_id)
    while rows := _rows(connection, run_id, after):
        for seq, at, kind, body in rows:
            if seq != after + 1:
                raise DamagedJournal(f"fact {after + 1} is missing")
            try:
                fact = fact_of(kind, body, content)
            except ValueError as error:
                raise DamagedJournal(f"fact {seq}: {error}") from None
            yield Entered(seq, at, fact)
            after = seq


def _rows(connection: Connection, run_id: int, after: int) -> Sequence[Row[int, float, str, str]]:
    """The next rows, at most BATCH. No cursor stays open between them, because a caller may stop."""
    return connection.execute(
        select(JournalRow.seq, JournalRow.at, JournalRow.kind, JournalRow.body)
        .where(JournalRow.run_id == run_id, JournalRow.seq > after)
        .order_by(JournalRow.seq)
        .limit(BATCH)
    ).all()


def _lookup(connection: Connection, run_id: int) -> Lookup:
    def content(digest: str) -> bytes:
        blob = _BLOB.value(connection, {"of_run": run_id, "of_digest": digest})
        if blob is None:
            raise KeyError(digest)
        held = content_of(bytes(blob))
        if digest_of(held) != digest:
            raise ValueError(f"the blob {digest} holds something else")
        return held

    return content
