"""Which program of a run is the best, and which are equal to it.

Where programs share a sandbox with what scores them (`trust` is "shared"), a score is what was said once, and where
equal programs get different scores (`noisy`), the best score is partly luck. There the best is the one with the best
*confirmed* score, that of the second evaluation. A program without one never claimed to be the best, and comes after
those. Everywhere else the best is the one with the best score: a second evaluation is made on other instances, and
scores on several sets compare less well than those on the one hidden set.

Two evaluations of one program differ by noise. Programs whose confirmed scores differ by no more than that usually is
(the median over the confirmed programs) are called equal to the best.
"""

from dataclasses import dataclass
from statistics import median

from sqlalchemy import Connection, and_, func, select
from sqlalchemy.exc import DBAPIError

from pace_async.fitness import Fitness, fitness_of
from pace_async.population.base import Population
from pace_async.population.models import CandidateRow, EvaluationAttemptRow, FreshScoreRow, RunRow
from pace_async.population.reading.epochs import last_lease_before
from pace_async.task import FULL

SHARED = "shared"


@dataclass(frozen=True, slots=True)
class ConfirmedProgram:
    """A program with its score, and the confirmed one."""

    candidate: int
    score: float
    confirmed: float


@dataclass(frozen=True, slots=True)
class Equals:
    """What two evaluations of one program usually differ by, None if none was evaluated twice, and the candidates that
    are equal to the best within that, the best ones first."""

    noise: float | None
    candidates: tuple[int, ...]


def equals_of(best: int, programs: tuple[ConfirmedProgram, ...], fitness: Fitness) -> Equals:
    """Pure. `programs` are all confirmed ones."""
    noise = median(abs(program.score - program.confirmed) for program in programs) if programs else None
    own = next((program.confirmed for program in programs if program.candidate == best), None)
    if noise is None or own is None:
        return Equals(noise, ())
    near = [
        program
        for program in programs
        if program.candidate != best and abs(program.confirmed - own) <= noise * (1 + 1e-9)
    ]
    near.sort(key=lambda program: (-fitness.merit(program.confirmed), program.candidate))
    return Equals(noise, tuple(program.candidate for program in near))


def best_candidate(connection: Connection, run_id: int) -> int | None:
    """The best program, in the order of the leaderboard. None before the first score."""
    by_confirmed, fitness = _run(connection, run_id)
    if by_confirmed and (programs := tried_of(connection, run_id)):
        merits = (
            (fitness.merit(program.confirmed), fitness.merit(program.score), -program.candidate) for program in programs
        )
        return -max(merits)[2]
    best = select(CandidateRow.candidate).where(CandidateRow.run_id == run_id, CandidateRow.merit.is_not(None))
    return connection.execute(best.order_by(CandidateRow.merit.desc(), CandidateRow.candidate).limit(1)).scalar()


def tried_of(connection: Connection, run_id: int) -> tuple[ConfirmedProgram, ...]:
    """The programs with a confirmed score, by the evaluator in force, in order."""
    rows = connection.execute(
        select(CandidateRow.candidate, CandidateRow.score, FreshScoreRow.score.label("confirmed"))
        .join(
            FreshScoreRow,
            and_(FreshScoreRow.run_id == CandidateRow.run_id, FreshScoreRow.candidate == CandidateRow.candidate),
        )
        .where(
            CandidateRow.run_id == run_id,
            CandidateRow.merit.is_not(None),
            CandidateRow.candidate > last_lease_before(connection, run_id),
            FreshScoreRow.held,
        )
        .order_by(CandidateRow.candidate, FreshScoreRow.number)
    )
    programs: dict[int, ConfirmedProgram] = {}
    for row in rows:
        programs.setdefault(row.candidate, ConfirmedProgram(row.candidate, row.score, row.confirmed))
    return tuple(programs.values())


def repeats_of(connection: Connection, run_id: int, candidate: int) -> tuple[float, ...]:
    """The scores of which the candidate's own is the mean, by the evaluator in force. Empty for a single evaluation."""
    row = EvaluationAttemptRow
    if candidate <= last_lease_before(connection, run_id):
        return ()
    mine = select(row.score).where(row.run_id == run_id, row.lease == candidate, row.score.is_not(None))
    return tuple(score for score in connection.execute(mine.order_by(row.attempt)).scalars() if score is not None)


def repeats_in(connection: Connection, run_id: int) -> int:
    """The scores of programs that were measured again, but for the first of each."""
    row = EvaluationAttemptRow
    scores, programs = func.count(), func.count(row.lease.distinct())
    return connection.execute(
        select(scores - programs).where(row.run_id == run_id, row.score.is_not(None))
    ).scalar_one()


async def newest_attempt(population: Population, run: str, candidate: int) -> int | None:
    """The number of the newest evaluation of a candidate on the hidden instances. None if it is not complete, was
    scored by an earlier evaluator, or the database is away."""
    row, attempt = CandidateRow, EvaluationAttemptRow
    same = and_(attempt.run_id == row.run_id, attempt.lease == row.candidate, attempt.stage == FULL, attempt.fresh == 0)
    newest = select(func.max(attempt.attempt)).select_from(row).join(attempt, same).where(row.candidate == candidate)

    def question(connection: Connection) -> int | None:
        run_id = connection.execute(select(RunRow.run_id).where(RunRow.name == run)).scalar_one()
        if candidate <= last_lease_before(connection, run_id):
            return None
        return connection.execute(newest.where(row.run_id == run_id)).scalar()

    try:
        return await population.read(question)
    except (DBAPIError, OSError):
        return None


def equal_to_best(connection: Connection, run_id: int, best: int) -> Equals:
    """What is equal to the best where the best is chosen by confirmed scores. Elsewhere nothing."""
    by_confirmed, fitness = _run(connection, run_id)
    if not by_confirmed:
        return Equals(None, ())
    return equals_of(best, tried_of(connection, run_id), fitness)


def _run(connection: Connection, run_id: int) -> tuple[bool, Fitness]:
    """Whether the best is chosen by confirmed scores, and how they compare."""
    columns = (RunRow.trust, RunRow.noisy, RunRow.direction, RunRow.lower, RunRow.upper)
    row = connection.execute(select(*columns).where(RunRow.run_id == run_id)).one()
    return row.trust == SHARED or row.noisy, fitness_of(row.direction, row.lower, row.upper)
