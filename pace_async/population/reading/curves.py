"""Reads what the evaluations of a run reported while they ran, and what their early ends saved."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from sqlalchemy import ColumnElement, Connection, func, or_, select
from sqlalchemy.exc import DBAPIError

from pace_async.events import Curve
from pace_async.population.base import Population
from pace_async.population.models import CandidateRow, EvaluationAttemptRow, LeaseRow, RunRow
from pace_async.population.reading.candidates import same_rollout
from pace_async.population.reading.epochs import last_lease_before
from pace_async.task import FULL

NEWEST = 200
"""Curves with which an evaluation is compared at most."""


@dataclass(frozen=True)
class PruningTotals:
    """How many evaluations of candidates were stopped early, how many ran to a score, and the seconds of these and of
    all."""

    pruned: int = 0
    pruned_s: float = 0.0
    complete: int = 0
    complete_s: float = 0.0
    all_s: float = 0.0

    def after(self, outcome: str, seconds: float, memoised: bool) -> Self:
        """With one more candidate. One whose score was known ran nothing."""
        if memoised:
            return self
        pruned, complete = outcome == "pruned", outcome == "ok"
        return type(self)(
            self.pruned + pruned,
            self.pruned_s + pruned * seconds,
            self.complete + complete,
            self.complete_s + complete * seconds,
            self.all_s + seconds,
        )

    @property
    def share(self) -> float | None:
        """The estimated share of the seconds of evaluations that the early ends saved: each counts as long as the mean
        of those that ran to a score. None if none was stopped."""
        if not self.pruned:
            return None
        whole = self.complete_s / self.complete if self.complete else 0.0
        saved = max(0.0, self.pruned * whole - self.pruned_s)
        return saved / (self.all_s + saved) if saved else 0.0


async def curves_before(population: Population, run: str, *, closed: bool) -> Sequence[tuple[Curve, bool]]:
    """What `curves` finds for a running run. Nothing in a database that is away."""
    try:
        return await population.read(lambda connection: curves(connection, run, closed=closed))
    except (DBAPIError, OSError):
        return ()


def curves(connection: Connection, run: str, *, closed: bool) -> Sequence[tuple[Curve, bool]]:
    """The newest curves of the run called `run` under its evaluator in force, by lease, and whether the evaluation ran
    to a score. With `closed` only those of leases that are closed, and of the task's own program."""
    row = EvaluationAttemptRow
    run_id = connection.execute(select(RunRow.run_id).where(RunRow.name == run)).scalar_one()
    after = last_lease_before(connection, run_id) or -1
    rows = select(row.curve, row.outcome).where(row.run_id == run_id, row.lease > after, *_OF_SCORE)
    if closed:
        rows = rows.outerjoin(LeaseRow, same_rollout(LeaseRow, row)).where(
            or_(row.lease == 0, LeaseRow.state != "open")
        )
    newest = connection.execute(rows.order_by(row.lease.desc(), row.attempt.desc()).limit(NEWEST))
    return [(_curve(curve), outcome == "ok") for curve, outcome in newest]


def reports_of(connection: Connection, run_id: int, candidate: int) -> tuple[Curve, str | None]:
    """What was reported of the evaluation of a candidate's last program, empty if nothing, and by whom."""
    row = EvaluationAttemptRow
    mine = select(row.curve, row.reported_by).where(row.run_id == run_id, row.lease == candidate, *_OF_SCORE)
    newest = connection.execute(mine.order_by(row.attempt.desc()).limit(1)).one_or_none()
    return (_curve(newest.curve), newest.reported_by) if newest is not None else ((), None)


def curves_of(connection: Connection, run_id: int) -> dict[int, tuple[Curve, bool]]:
    """Of each candidate whose last evaluation reported something: what, and whether it ran to a score."""
    row = EvaluationAttemptRow
    rows = select(row.lease, row.curve, row.outcome).where(row.run_id == run_id, *_OF_SCORE).order_by(row.attempt)
    return {lease: (_curve(curve), outcome == "ok") for lease, curve, outcome in connection.execute(rows)}


def saved_by(connection: Connection, run_id: int) -> PruningTotals:
    """What the early ends of a run's evaluations saved."""
    row = CandidateRow
    rows = connection.execute(
        select(row.outcome, func.count(), func.sum(row.seconds))
        .where(row.run_id == run_id, row.candidate > 0, row.memoised.is_(False))
        .group_by(row.outcome)
    )
    sums = {outcome: (amount, seconds) for outcome, amount, seconds in rows}
    pruned, complete = sums.get("pruned", (0, 0.0)), sums.get("ok", (0, 0.0))
    return PruningTotals(*pruned, *complete, sum(seconds for _, seconds in sums.values()))


_OF_SCORE: tuple[ColumnElement[bool], ...] = (
    EvaluationAttemptRow.stage == FULL,
    EvaluationAttemptRow.fresh == 0,
    EvaluationAttemptRow.accepted.is_(True),
    EvaluationAttemptRow.curve.is_not(None),
)
"""Attempts that scored a program, or would have."""


def _curve(stored: list[list[float]] | None) -> Curve:
    return tuple((int(step), value) for step, value in stored or ())
