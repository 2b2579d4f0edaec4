"""The best programs of a run, for another one that begins with them."""

from sqlalchemy import Connection, select

from pace_async.population.models import CandidateRow
from pace_async.population.reading.confirmed import best_candidate
from pace_async.population.reading.programs import whole


def best_programs(connection: Connection, run_id: int, most: int | None) -> list[tuple[int, str, float]]:
    """At most so many candidates with their programs and scores, None for all: the best one of the leaderboard, then by
    score. Of equal programs the first by that order."""
    row, best = CandidateRow, best_candidate(connection, run_id)
    of_run = row.run_id == run_id
    ranked = connection.execute(
        select(row.candidate, row.program_hash)
        .where(of_run, row.merit.is_not(None), row.program.is_not(None))
        .order_by(row.merit.desc(), row.candidate)
    ).all()
    by_digest: dict[str | None, int] = {}
    for candidate, digest in sorted(ranked, key=lambda each: each[0] != best):
        by_digest.setdefault(digest, candidate)
    programs: list[tuple[int, str, float]] = []
    for candidate in [*by_digest.values()][:most]:
        statement = select(row.program, row.score).where(of_run, row.candidate == candidate)
        program, score = connection.execute(statement).one()
        programs.append((candidate, whole(connection, run_id, program or ""), score or 0.0))
    return programs
