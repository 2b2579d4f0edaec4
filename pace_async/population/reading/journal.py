"""The facts of a run in the order of their commits: from its journal, or, if it began without one and was not opened
for writing since, inferred from its rows (`importing`)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Executable, Row, bindparam, func, select

from pace_async.population.journal.bodies import Recorded, fact_of
from pace_async.population.journal.stored import Lookup, content_of, digest_of
from pace_async.population.models import (
    AdvisorCallRow,
    CandidateRow,
    CascadeScoreRow,
    ImplementerTryRow,
    JournalRow,
)
from pace_async.population.reading.importing.facts import inferred_facts
from pace_async.population.reading.programs import BLOB

BATCH = 500
"""Rows read at once."""
RECENT = 256
"""Leases whose texts and tokens are held at once."""
_CALLED, _TRIED = AdvisorCallRow, ImplementerTryRow


def _holding(table: Any, key: Any, *columns: Any) -> Executable:
    """The statement that reads `columns` of a table whose column `key` is the lease. It is made once: making one takes
    longer than the database does to answer it."""
    return select(*columns).where(table.run_id == bindparam("of_run"), key == bindparam("of_lease"))


_HOLDING = (
    _holding(
        _CALLED,
        _CALLED.lease,
        *(_CALLED.prompt_ids, _CALLED.completion_ids, _CALLED.logprobs, _CALLED.spans, _CALLED.text, _CALLED.prompt),
    ),
    _holding(_TRIED, _TRIED.lease, _TRIED.program, _TRIED.answer),
    _holding(CascadeScoreRow, CascadeScoreRow.lease, CascadeScoreRow.program),
    _holding(CandidateRow, CandidateRow.candidate, CandidateRow.program),
)
"""Of each table whose rows hold what facts refer to: the columns of texts and of tokens, which are together one
content."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A fact with its number in the run's journal, from 1, and its time in seconds since the epoch."""

    seq: int
    at: float
    fact: Recorded


class DamagedJournal(ValueError):
    """A journal that no run can have written."""


def last_seq(connection: Connection, run_id: int) -> int:
    """The number of the newest fact in the run's journal, 0 for a run without one."""
    newest = select(func.coalesce(func.max(JournalRow.seq), 0)).where(JournalRow.run_id == run_id)
    return connection.execute(newest).scalar_one()


def has_journal(connection: Connection, run_id: int) -> bool:
    """Whether the run has a journal, which is then complete."""
    return connection.execute(select(JournalRow.seq).where(JournalRow.run_id == run_id).limit(1)).first() is not None


def entries_of(connection: Connection, run_id: int, after: int = 0, *, texts: bool = True) -> Iterator[JournalEntry]:
    """The facts whose number is greater than `after`, whether the run has a journal or not. Without `texts` no long
    text and no tokens are read from a journal. Raises DamagedJournal, in words, for a gap, and for a body or a blob
    that does not read, and PaceBug for rows that no run can have written."""
    if has_journal(connection, run_id):
        yield from _stored(connection, run_id, after, texts)
    else:
        for seq, (at, fact) in enumerate(inferred_facts(connection, run_id, after), start=after + 1):
            yield JournalEntry(seq, at, fact)


def _stored(connection: Connection, run_id: int, after: int, texts: bool) -> Iterator[JournalEntry]:
    contents = Contents(connection, run_id)
    while rows := _rows(connection, run_id, after):
        for seq, at, kind, lease, body in rows:
            if seq != after + 1:
                raise DamagedJournal(f"fact {after + 1} is missing")
            try:
                fact = fact_of(kind, body, contents.of(lease) if texts else None)
            except ValueError as error:
                raise DamagedJournal(f"fact {seq}: {error}") from None
            yield JournalEntry(seq, at, fact)
            after = seq


def _rows(connection: Connection, run_id: int, after: int) -> Sequence[Row[int, float, str, int | None, str]]:
    """The next rows, at most BATCH. No cursor stays open between them, because a caller may stop."""
    return connection.execute(
        select(JournalRow.seq, JournalRow.at, JournalRow.kind, JournalRow.lease, JournalRow.body)
        .where(JournalRow.run_id == run_id, JournalRow.seq > after)
        .order_by(JournalRow.seq)
        .limit(BATCH)
    ).all()


class Contents:
    """What the facts of a run refer to, by digest: blobs, and the texts and tokens in the rows of the fact's lease."""

    def __init__(self, connection: Connection, run_id: int) -> None:
        self._connection, self._run_id = connection, run_id
        self._recent: dict[int, dict[str, bytes]] = {}

    def of(self, lease: int | None) -> Lookup:
        """The contents that a fact of this lease may refer to."""

        def content(digest: str) -> bytes:
            if lease is not None and (data := self._rows_of(lease).get(digest)) is not None:
                return data
            blob = BLOB.value(self._connection, {"of_run": self._run_id, "of_digest": digest})
            if blob is None:
                raise KeyError(digest)
            data = content_of(bytes(blob))
            if digest_of(data) != digest:
                raise ValueError(f"the blob {digest} holds something else")
            return data

        return content

    def _rows_of(self, lease: int) -> dict[str, bytes]:
        if lease not in self._recent:
            if len(self._recent) == RECENT:
                del self._recent[next(iter(self._recent))]
            contents: list[bytes] = []
            for statement in _HOLDING:
                for row in self._connection.execute(statement, {"of_run": self._run_id, "of_lease": lease}):
                    contents.append(b"".join(value for value in row if isinstance(value, bytes)))
                    contents += [value.encode() for value in row if isinstance(value, str)]
            self._recent[lease] = {digest_of(content): content for content in contents}
        return self._recent[lease]
