"""Reads evaluation epochs: which evaluator's scores are in force, what is left to score again, and the scores on which
earlier decisions of the run were based.

Invariant: `candidates` has the scores in force. Only what depends on earlier ones reads `epoch_scores`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from pace_async.fitness import Fitness
from pace_async.population.models import CandidateRow, EpochScoreRow, EvaluationEpochRow, LeaseRow
from pace_async.population.reading.programs import whole
from pace_async.search.state import Member
from pace_async.state.memory import NewScore
from pace_async.state.rescored import Rescoring


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch. `best` is how many of the best programs it scores, None for all. `last_lease` is the last lease before
    it came into force, at `in_force_at`. Both are None while it is not."""

    number: int
    task_digest: str
    best: int | None
    last_lease: int | None
    in_force_at: float | None

    @property
    def in_force(self) -> bool:
        """Whether its scores came into force, even if those of a later one have since."""
        return self.last_lease is not None


def epochs_of(connection: Connection, run_id: int) -> tuple[Epoch, ...]:
    """All epochs that were begun, in order."""
    row = EvaluationEpochRow
    rows = connection.execute(
        select(row.epoch, row.task_digest, row.best, row.last_lease, row.in_force_at)
        .where(row.run_id == run_id)
        .order_by(row.epoch)
    )
    return tuple(Epoch(*record) for record in rows)


def in_force_of(connection: Connection, run_id: int) -> Epoch | None:
    """The epoch whose scores are in force, None for the evaluator that the run began with."""
    return next((epoch for epoch in reversed(epochs_of(connection, run_id)) if epoch.in_force), None)


def last_lease_before(connection: Connection, run_id: int) -> int:
    """The last lease before the epoch in force, 0 without one. What was tried on fresh instances up to it was tried by
    another evaluator."""
    epoch = in_force_of(connection, run_id)
    return 0 if epoch is None else epoch.last_lease or 0


def programs_of(connection: Connection, run_id: int, best: int | None) -> list[int]:
    """The candidates to score again: those with a program, or the `best` of them by the scores in force. The task's own
    program comes first."""
    row = CandidateRow
    has_program = select(row.candidate).where(row.run_id == run_id, row.program.is_not(None))
    if best is None:
        return list(connection.execute(has_program.order_by(row.candidate)).scalars())
    ranked = has_program.where(row.merit.is_not(None)).order_by(row.merit.desc(), row.candidate).limit(best)
    return [0, *(candidate for candidate in connection.execute(ranked).scalars() if candidate != 0)]


def program_of(connection: Connection, run_id: int, candidate: int) -> str:
    """The program of a candidate that has one."""
    row = CandidateRow
    result = connection.execute(select(row.program).where(row.run_id == run_id, row.candidate == candidate))
    return whole(connection, run_id, result.scalar_one() or "")


def rescored_of(connection: Connection, run_id: int, epoch: int) -> set[int]:
    """The candidates that an epoch has scored already."""
    row = EpochScoreRow
    return set(connection.execute(select(row.candidate).where(row.run_id == run_id, row.epoch == epoch)).scalars())


def mean_seconds_of(connection: Connection, run_id: int) -> float:
    """Mean time of an evaluation in force that ran, in seconds, 0 if none did."""
    row = CandidateRow
    ran = select(func.avg(row.seconds)).where(row.run_id == run_id, row.seconds > 0, row.program.is_not(None))
    return connection.execute(ran).scalar_one() or 0.0


def open_leases_of(connection: Connection, run_id: int) -> list[tuple[int, int]]:
    """(lease, island) of the leases that are not complete, and cannot go on under another evaluator."""
    row = LeaseRow
    rows = connection.execute(
        select(row.lease, row.island)
        .where(row.run_id == run_id, row.state == "open", row.stage.in_(("admitted", "advised")))
        .order_by(row.lease)
    )
    return [(lease.lease, lease.island) for lease in rows]


def last_lease_of(connection: Connection, run_id: int) -> int:
    """The newest lease, 0 before the first."""
    row = LeaseRow
    return connection.execute(select(func.coalesce(func.max(row.lease), 0)).where(row.run_id == run_id)).scalar_one()


def rescoring_of(connection: Connection, run_id: int, epoch: int, fitness: Fitness) -> Rescoring:
    """The results of an epoch for every program that it scored. Scores that were kept in it when the next one came into
    force have the time of their candidates."""
    row, candidate = EpochScoreRow, CandidateRow
    statement = (
        select(row.candidate, row.outcome, row.score, row.reward, row.metrics, candidate.island, candidate.program)
        .join(candidate, (candidate.run_id == row.run_id) & (candidate.candidate == row.candidate))
        .where(row.run_id == run_id, row.epoch == epoch, row.at != candidate.at)
        .order_by(row.candidate)
    )
    scores: dict[int, NewScore] = {}

    def members() -> Iterator[tuple[int, Member]]:
        for result in connection.execute(statement.execution_options(yield_per=500)):
            costs = fitness.costs(result.metrics)
            scores[result.candidate] = NewScore(result.outcome, result.score, result.reward, costs)
            if result.score is not None:
                program = whole(connection, run_id, result.program)
                yield result.island or 0, Member(result.candidate, program, result.score, costs=costs)

    return Rescoring.of(scores, members())
