"""Follows a run that another process may drive: its facts in the order of their commits, each once.

Invariant: nothing is read while nothing is committed. From a journal neither long texts nor tokens are read unless
they are asked for, so that a run of any length is followed cheaply. A candidate that was scored again has the score in
force.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from sqlalchemy import Connection, select

from pace_async.errors import UsageError
from pace_async.events import Evaluated, RunHeader
from pace_async.population.journal.bodies import Recorded
from pace_async.population.models import CandidateRow
from pace_async.population.reading.epochs import in_force_of
from pace_async.population.reading.journal import DamagedJournal, JournalEntry, entries_of
from pace_async.population.reading.load import header_of
from pace_async.population.reading.snapshots import newest_snapshot

if TYPE_CHECKING:
    from pace_async.population.reading.reader import Reader


F = TypeVar("F", bound="Follows")


def facts_of(connection: Connection, run_id: int, after: int = 0, *, texts: bool = False) -> Iterator[JournalEntry]:
    """The facts whose number is greater than `after`, with their long texts and tokens if `texts`. Raises UsageError if
    the journal is damaged."""
    scores = _scores_in_force(connection, run_id)
    try:
        for entry in entries_of(connection, run_id, after, texts=texts):
            fact = entry.fact
            anew = scores.get(fact.lease) if isinstance(fact, Evaluated) else None
            yield entry if anew is None else replace(entry, fact=replace(fact, fresh=(), **anew))
    except DamagedJournal as error:
        raise UsageError(
            f"The journal of this run is damaged ({error}): restore its population from a backup."
        ) from None


class Follows(Protocol):
    """What takes in the facts of a run, one after the other."""

    def take(self, fact: Recorded) -> object:
        """The next fact."""
        ...


@dataclass(frozen=True, slots=True)
class ResumedFollower(Generic[F]):
    """A follower as of the fact `seq`, the last `since` of which were not in its snapshot."""

    follower: F
    seq: int
    since: int


def begin_at_snapshot(
    connection: Connection, run_id: int, begin: Callable[[RunHeader, bytes | None], F]
) -> tuple[F, int]:
    """A follower as of the newest snapshot of a run, and the number of the last fact in it, 0 before the first. `begin`
    makes it from the view in the snapshot, or with None as it is before the first fact. It raises ValueError for a view
    that does not read."""
    header, snapshot = header_of(connection, run_id), newest_snapshot(connection, run_id)
    if snapshot is not None:
        with suppress(ValueError):  # all facts are there
            return begin(header, snapshot.view), snapshot.seq
    return begin(header, None), 0


def taken_up(connection: Connection, run_id: int, begin: Callable[[RunHeader, bytes | None], F]) -> ResumedFollower[F]:
    """A follower that took in all facts of a run, begun as `begun` says. Raises UsageError if the journal is
    damaged."""
    follower, after = begin_at_snapshot(connection, run_id, begin)
    seq = after
    for entry in facts_of(connection, run_id, after):
        follower.take(entry.fact)
        seq = entry.seq
    return ResumedFollower(follower, seq, seq - after)


def both_views(
    connection: Connection, run_id: int, begin: Callable[[RunHeader, bytes | None], F]
) -> tuple[int, F, F] | None:
    """The number of the last fact in the newest snapshot, the follower in it, and one that took in all facts up to it.
    None without a snapshot. Raises ValueError for one that does not read, UsageError for such a journal."""
    header, snapshot = header_of(connection, run_id), newest_snapshot(connection, run_id)
    if snapshot is None:
        return None
    restored, folded = begin(header, snapshot.view), begin(header, None)
    for entry in takewhile(lambda entry: entry.seq <= snapshot.seq, facts_of(connection, run_id)):
        folded.take(entry.fact)
    return snapshot.seq, restored, folded


def _scores_in_force(connection: Connection, run_id: int) -> dict[int, dict[str, Any]]:
    """What an evaluation of a later epoch changed in the candidates before it."""
    epoch, row = in_force_of(connection, run_id), CandidateRow
    if epoch is None:
        return {}
    columns = (row.outcome, row.detail, row.score, row.reward, row.seconds, row.memoised)
    rows = connection.execute(
        select(row.candidate, *columns).where(row.run_id == run_id, row.candidate <= epoch.last_lease)
    )
    return {
        record["candidate"]: {name: record[name] for name in record if name != "candidate"}
        for record in rows.mappings()
    }


class Following:
    """One follower of the run that a reader was opened for. `seq` is the number of the last fact that it was given, and
    `texts` as in `facts_of`."""

    def __init__(self, reader: "Reader", after: int = 0, *, texts: bool = False) -> None:
        self.seq = after
        self._reader, self._texts = reader, texts
        self._mark = ""

    def news(self) -> Generator[JournalEntry]:
        """The facts since the last one. Raises UsageError if they cannot be read. Those not given yet are given by the
        next call."""
        mark = self._reader.mark()
        if mark == self._mark:
            return
        with self._reader.at_one_moment() as reader:
            for entry in reader.facts(self.seq, texts=self._texts):
                self.seq = entry.seq
                yield entry
        self._mark = mark

    async def wait(self) -> None:
        """Wait until there may be news. Raises UsageError if nobody can tell."""
        await self._reader.news(self._mark)
