"""Follows a run that another process may drive: its facts in the order of their commits, each once.

Invariant: nothing is read while nothing is committed. From a journal neither long texts nor tokens are read unless
they are asked for, so that a run of any length is followed cheaply. A candidate that was scored again has the score in
force.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, select

from pace_async.errors import UsageError
from pace_async.events import Evaluated
from pace_async.population.models import CandidateRow
from pace_async.population.reading.epochs import in_force_of
from pace_async.population.reading.journal import DamagedJournal, Entered, entries_of

if TYPE_CHECKING:
    from pace_async.population.reading.reader import Reader


def facts_of(connection: Connection, run_id: int, after: int = 0, *, texts: bool = False) -> Iterator[Entered]:
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
        found["candidate"]: {name: found[name] for name in found if name != "candidate"} for found in rows.mappings()
    }


class Following:
    """One follower of the run that a reader was opened for. `seq` is the number of the last fact that it was given, and
    `texts` as in `facts_of`."""

    def __init__(self, reader: "Reader", after: int = 0, *, texts: bool = False) -> None:
        self.seq = after
        self._reader, self._texts = reader, texts
        self._mark = ""

    def news(self) -> Iterator[Entered]:
        """The facts since the last one. Raises UsageError if they cannot be read. Those not given yet are given by the
        next call."""
        mark = self._reader.mark()
        if mark == self._mark:
            return
        with self._reader.at_one_moment() as held:
            for entry in held.facts(self.seq, texts=self._texts):
                self.seq = entry.seq
                yield entry
        self._mark = mark

    async def wait(self) -> None:
        """Wait until there may be news. Raises UsageError if nobody can tell."""
        await self._reader.news(self._mark)
