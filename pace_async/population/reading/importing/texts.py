"""The facts of steps, those with long texts and tokens read a few hundred at a time."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

from sqlalchemy import Connection, and_, func, select
from sqlalchemy.orm import aliased

from pace_async.events import Evaluated, Fact, IdeasLeft, ImplementerCalled, NotesPage
from pace_async.population.fields import fact_of, shared_values
from pace_async.population.models import (
    CandidateRow,
    EpochScoreRow,
    EvaluationAttemptRow,
    IdeasLeftRow,
    ImplementerTryRow,
    NotesPageRow,
)
from pace_async.population.reading.importing.calls import answering_calls
from pace_async.population.reading.importing.order import Step
from pace_async.population.reading.read_facts import (
    advice_of,
    answers_of,
    claims_of,
    evaluations_of,
    practices_of,
    stages_of,
)
from pace_async.population.reading.read_spending import tries_by_call

BATCH = 200


class Texts:
    """Completes the steps of one run, those of the leases `whole` or, without, of all."""

    def __init__(self, connection: Connection, run_id: int, whole: Set[int] | None) -> None:
        self._connection, self._run_id, self._whole = connection, run_id, whole
        self._claims = claims_of(connection, run_id)
        self._gains, self._deviations = _gains_of(connection, run_id), _deviations_of(connection, run_id)
        self._repeats = _repeats_of(connection, run_id)
        self._answering = answering_calls(connection, run_id)
        self._answers = answers_of(connection, run_id, {lease for lease, _ in self._answering})
        self._rescored = connection.execute(
            select(func.count()).select_from(EpochScoreRow).where(EpochScoreRow.run_id == run_id)
        ).scalar_one()

    def facts(self, steps: Sequence[Step]) -> Iterator[tuple[float, Fact]]:
        """Each with its time."""
        for begin in range(0, len(steps), BATCH):
            batch = steps[begin : begin + BATCH]
            yield from zip([step.at for step in batch], self._batch(batch), strict=True)

    def _batch(self, steps: Sequence[Step]) -> Iterator[Fact]:
        connection, run_id = self._connection, self._run_id

        def leases(what: str) -> list[int]:
            return [step.key[1] for step in steps if step.texts and step.key[0] == what]

        called, decided = set(leases("called")), set(leases("advised"))
        advice = advice_of(connection, run_id, decided, self._among(decided))
        ended = self._evaluations(leases("ended"))
        stages = stages_of(connection, run_id, set(leases("stage")))
        practices = practices_of(connection, run_id, leases("practised"))
        tries, pages = tries_by_call(connection, run_id, self._among(called)), self._pages(called)
        left = self._departures(called)
        for step in steps:
            event, lease, number = step.key
            if isinstance(step.fact, ImplementerCalled) and step.texts:
                key = (lease, number)
                attempt, place = tries.get(key), self._answering.get(key)
                yield replace(
                    step.fact,
                    tried=None
                    if attempt is None
                    else replace(attempt, evaluation=None, evaluation_detail="", evaluation_feedback=None),
                    answered=None if place is None else self._answers[lease][place],
                    notes=pages.get(key),
                    left=left.get(key),
                )
            elif step.fact is not None:
                yield step.fact
            elif event == "stage":
                yield stages[lease][number - 1]
            elif event == "claimed":
                yield self._claims[lease]
            else:
                yield {"advised": advice, "ended": ended, "practised": practices}[event][lease]

    def _among(self, leases: set[int]) -> set[int]:
        return leases if self._whole is None else leases & self._whole

    def _evaluations(self, candidates: list[int]) -> dict[int, Evaluated]:
        """Complete rollouts with the results of the evaluator that first scored them."""
        facts = evaluations_of(self._connection, self._run_id, candidates)
        for candidate, fact in facts.items():
            gained, deviation = candidate in self._gains, self._deviations.get(candidate, "")
            repeated = tuple(self._repeats.get(candidate, ()))
            facts[candidate] = replace(fact, gained=gained, deviation=deviation, repeated=repeated)
        if self._rescored and candidates:
            row = EpochScoreRow
            scores = select(row).where(row.run_id == self._run_id, row.candidate.in_(candidates))
            for first in self._connection.execute(scores.order_by(row.epoch.desc())):
                fact = facts[first.candidate]
                facts[first.candidate] = replace(fact, **{**shared_values(Evaluated, row, first), "at": fact.at})
        return facts

    def _pages(self, leases: set[int]) -> dict[tuple[int, int], NotesPage]:
        """The pages of notes by the call that wrote them."""
        row = NotesPageRow
        pages = self._connection.execute(select(row).where(row.run_id == self._run_id, row.lease.in_(leases)))
        return {(page.lease, page.ordinal): fact_of(NotesPage, row, page) for page in pages}

    def _departures(self, leases: set[int]) -> dict[tuple[int, int], IdeasLeft]:
        """The ideas that left a pool by the call that named them."""
        departures: dict[tuple[int, int], IdeasLeft] = {}
        row = IdeasLeftRow
        rows = select(row).where(row.run_id == self._run_id, row.lease.in_(leases)).order_by(row.idea)
        for record in self._connection.execute(rows):
            key = record.lease, record.ordinal
            ideas = departures[key].ideas if key in departures else ()
            departures[key] = IdeasLeft(
                record.island, record.lease, record.from_group, (*ideas, (record.idea, record.text or ""))
            )
        return departures


def _gains_of(connection: Connection, run_id: int) -> set[int]:
    """The leases whose candidate scores better than its parent, by the scores in force."""
    child, parent = CandidateRow, aliased(CandidateRow)
    better = select(child.candidate).join(
        parent, and_(parent.run_id == child.run_id, parent.candidate == child.parent, child.merit > parent.merit)
    )
    return set(connection.execute(better.where(child.run_id == run_id)).scalars())


def _repeats_of(connection: Connection, run_id: int) -> dict[int, list[float]]:
    """The scores of each candidate that was evaluated several times."""
    row, scores = EvaluationAttemptRow, dict[int, list[float]]()
    rows = select(row.lease, row.score).where(row.run_id == run_id, row.score.is_not(None))
    for lease, score in connection.execute(rows.order_by(row.lease, row.attempt)):
        if score is not None:
            scores.setdefault(lease, []).append(score)
    return scores


def _deviations_of(connection: Connection, run_id: int) -> dict[int, str]:
    """What the author of each lease's last program corrected in the experiment, without leases where it is nothing."""
    row = ImplementerTryRow
    rows = connection.execute(
        select(row.lease, row.detail)
        .where(row.run_id == run_id, row.outcome == "ok", row.detail != "")
        .order_by(row.lease, row.number)
    )
    return {each.lease: each.detail for each in rows}  # the last of a lease counts
