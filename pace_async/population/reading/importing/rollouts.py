"""The steps of rollouts, from admission to a closing without a group."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, select

from pace_async.events import EvaluationAttempted, LeaseAborted, LeaseOpened, LeaseReleased
from pace_async.population.fields import fact_of
from pace_async.population.models import (
    CandidateRow,
    CascadeScoreRow,
    ClaimRow,
    EvaluationAttemptRow,
    ExperimentRow,
    IdeaRow,
    LeaseRow,
    PracticeRow,
    ProposalRow,
)
from pace_async.population.reading.implementers_chosen import choices_of
from pace_async.population.reading.importing.order import Key, Step
from pace_async.population.reading.read_facts import actions_of

SEED_SCORED: Key = ("ended", 0, 0)


class Rollouts:
    """Reads the steps of a run's rollouts. `ends_after` are further steps that come before the end of a lease, and
    `epochs` the last lease before each epoch in force, by its number."""

    def __init__(
        self, connection: Connection, run_id: int, ends_after: dict[int, list[Key]], epochs: dict[int, int]
    ) -> None:
        self._connection, self._run_id = connection, run_id
        self._ends_after = ends_after
        self._epochs = epochs

    def steps(self) -> Iterator[Step]:
        """All of them, in no order."""
        yield from self._before_the_end()
        scored = self._all(CandidateRow, CandidateRow.candidate, CandidateRow.parent, CandidateRow.at)
        yield from self._leases({row.candidate for row in scored})
        yield from self._decisions()
        for row in scored:
            before = [("advised", row.candidate, 0), *self._ends_after.get(row.candidate, ())]
            if row.candidate:
                before.append(SEED_SCORED)
            yield Step(("ended", row.candidate, 0), row.at, row.candidate, None, tuple(before), texts=True)

    def _leases(self, scored: set[int]) -> Iterator[Step]:
        previous: dict[int, int] = {}
        for row in self._all(LeaseRow, LeaseRow):
            lease = row.lease
            after = [SEED_SCORED, ("ended", previous.get(row.island, 0), 0), ("ended", row.migrant or 0, 0)]
            after += [("in force", epoch, 0) for epoch, last in self._epochs.items() if last < lease]
            previous[row.island] = lease
            opened = fact_of(LeaseOpened, LeaseRow, row, version=row.admitted_version, at=row.opened_at)
            yield Step(("opened", lease, 0), row.opened_at, lease, opened, tuple(after))
            if row.state == "aborted":
                kind, _, detail = (row.reason or "").partition(": ")
                aborted = LeaseAborted(lease, row.island, kind, detail, row.closed_at)
                key: Key = ("aborted" if lease in scored else "ended", lease, 0)
                before = (*(("opened", "advised", "ended") if lease in scored else ("opened", "advised")),)
                rests_on = (*((event, lease, 0) for event in before), *self._ends_after.get(lease, ()))
                yield Step(key, row.closed_at, lease, aborted, rests_on)
            elif row.state != "open" and row.group_number is None:
                released = LeaseReleased(lease, row.state, row.closed_at)
                yield Step(("released", lease, 0), row.closed_at, lease, released, (("ended", lease, 0),))

    def _decisions(self) -> Iterator[Step]:
        """What islands did, and what their advisors decided. Ideas that all islands share are proposed before another
        island uses them."""
        for lease, acted in actions_of(self._connection, self._run_id).items():
            endings = [("ended", acted.candidate, 0)]
            if acted.as_of is not None:
                endings.append(("ended", acted.as_of, 0))
            yield Step(("acted", lease, 0), acted.at, lease, acted, (("opened", lease, 0), *endings))
        proposed: dict[int, int] = {}
        for row in self._all(IdeaRow, IdeaRow.idea, IdeaRow.lease):
            proposed[row.idea] = min(row.lease, proposed.get(row.idea, row.lease))
        used: defaultdict[int, set[int]] = defaultdict(set)
        known = select(ProposalRow.lease, ProposalRow.idea).where(ProposalRow.run_id == self._run_id, ProposalRow.known)
        for row in self._connection.execute(known):
            used[row.lease].add(row.idea)
        decided = (ExperimentRow.lease, ExperimentRow.parent, ExperimentRow.idea, ExperimentRow.at)
        for row in self._all(ExperimentRow, *decided):
            lease, ideas = row.lease, used[row.lease] | ({row.idea} if row.idea is not None else set[int]())
            rests_on = [("opened", lease, 0), ("acted", lease, 0), ("ended", row.parent, 0)]
            rests_on += [("advised", proposed[idea], 0) for idea in ideas if proposed.get(idea, lease) < lease]
            yield Step(("advised", lease, 0), row.at, lease, None, tuple(rests_on), texts=True)
        for lease, chosen in choices_of(self._connection, self._run_id, None).items():
            yield Step(("chosen", lease, 0), chosen.at, lease, chosen, (("advised", lease, 0),))

    def _before_the_end(self) -> Iterator[Step]:
        """What an open lease goes through. Those of the task's own program have no lease."""
        for row in self._all(EvaluationAttemptRow, EvaluationAttemptRow):
            curve = None if row.curve is None else tuple((step, value) for step, value in row.curve)
            attempted = fact_of(EvaluationAttempted, EvaluationAttemptRow, row, curve=curve)
            key = (f"attempted {row.stage} {row.fresh}", row.lease, row.attempt)
            after = (("opened", row.lease, 0), (key[0], row.lease, row.attempt - 1))
            yield self._of_lease(key, row.ended_at, row.lease, attempted, after)
        for row in self._all(PracticeRow, PracticeRow.lease, PracticeRow.at):
            after = (("advised", row.lease, 0),) if row.lease else (SEED_SCORED,)
            yield self._of_lease(("practised", row.lease, 0), row.at, row.lease, None, after)
        for row in self._all(CascadeScoreRow, CascadeScoreRow.lease, CascadeScoreRow.ordinal, CascadeScoreRow.at):
            after = (("advised", row.lease, 0), ("stage", row.lease, row.ordinal - 1))
            yield self._of_lease(("stage", row.lease, row.ordinal), row.at, row.lease, None, after)
        for row in self._all(ClaimRow, ClaimRow.lease, ClaimRow.at):
            yield self._of_lease(("claimed", row.lease, 0), row.at, row.lease, None, (("advised", row.lease, 0),))

    def _of_lease(self, key: Key, at: float, lease: int, fact: Any, after: tuple[Key, ...]) -> Step:
        if lease:
            self._ends_after.setdefault(lease, []).append(key)
        return Step(key, at, lease, fact, after, texts=fact is None)

    def _all(self, table: Any, *columns: Any) -> list[Any]:
        statement = select(*columns).where(table.run_id == self._run_id).order_by(*table.__table__.primary_key.columns)
        return list(self._connection.execute(statement).all())
