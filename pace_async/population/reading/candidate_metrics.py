"""The metrics of scored candidates, in the order of completion.

Invariant: of a long run only some are read, those that were better than all before them always.
"""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection, and_, func, or_, select

from pace_async.population.models import CandidateRow
from pace_async.population.reading.progress import placed_of

READ = 2_000
"""Candidates of which the metrics are read, besides those that were better than all before them."""


class CandidateMetrics(NamedTuple):
    """A candidate with a score, and its metrics by name. `completed` counts the candidates before it. `improved`: it
    was better than all before it."""

    completed: int
    candidate: int
    score: float
    improved: bool
    metrics: Mapping[str, float]


def measured_of(connection: Connection, run_id: int, most: int = READ) -> tuple[CandidateMetrics, ...]:
    """About `most` candidates at even distances, and all that improved."""
    every = select(func.count()).where(CandidateRow.run_id == run_id)
    apart = max(1, -(-connection.execute(every).scalar_one() // most))
    placed = placed_of(run_id)
    improved = or_(placed.c.before.is_(None), placed.c.merit > placed.c.before)
    rows = connection.execute(
        select(placed.c.place, placed.c.candidate, placed.c.score, improved.label("improved"), CandidateRow.metrics)
        .select_from(placed)
        .join(CandidateRow, and_(CandidateRow.run_id == placed.c.run_id, CandidateRow.candidate == placed.c.candidate))
        .where(placed.c.merit.is_not(None), or_(improved, placed.c.place % apart == 0))
        .order_by(placed.c.place)
    )
    return tuple(
        CandidateMetrics(place, candidate, score, bool(better), metrics)
        for place, candidate, score, better, metrics in rows
    )
